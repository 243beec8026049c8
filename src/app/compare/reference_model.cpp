#include "reference_model.hpp"

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "layout/copy.hpp"
#include "models/config.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

namespace {

void require_seen(mpi::Comm& comm, const Survey& survey) {
    const auto& files = survey.catalogue.files;
    for (std::uint32_t file = 0; file < files.size(); ++file) {
        if (!survey.visibility.sees(comm.rank(), file)) {
            throw Error(ErrorCode::not_found,
                        "there is no " + (survey.location.directory / files[file].path).string() +
                            " for this rank",
                        "put the model that is compared with where all ranks see it");
        }
    }
}

std::string share_config(mpi::Comm& comm, const Survey& survey) {
    return mpi::share(comm, survey.home, [&]() -> std::string {
        const fs::path path = survey.location.directory / "config.json";
        return io::is_file(path) ? io::read_text(path, models::kMaxConfig) : "";
    });
}

}  // namespace

void ModelDirectory::want(const std::vector<execute::Pair>& pairs) const {
    if (!input.is_checked) {
        return;
    }
    std::vector<catalogue::Tensor> read;
    for (const execute::Pair& pair : pairs) {
        read.push_back(tensors[pair.tensor]);
    }
    input.sums->want(targets_of(read));
}

std::optional<bool> ModelDirectory::ties() const {
    return ties_in(config_text, (input.directory / "config.json").string());
}

ModelDirectory read_model_directory(Session& session, const fs::path& directory) {
    const MemoryMeter meter;
    formats::InputRequest request;
    request.directory = directory;
    request.backend = "hf";
    request.wants_model = true;
    request.check_crc = session.options.check_crc != CheckCrc::off;
    const std::string name = (directory / "").parent_path().filename().string();
    Survey found = survey_shown(session, request, " of " + printable(name));
    mpi::collectively(session.comm, [&] { require_seen(session.comm, found); });
    std::string config = share_config(session.comm, found);
    return {input_of(found, meter, request.check_crc), std::move(found.catalogue.tensors),
            std::move(config)};
}

std::vector<plan::Target> targets_of(const std::vector<catalogue::Tensor>& tensors) {
    std::vector<plan::Target> targets;
    targets.reserve(tensors.size());
    for (const catalogue::Tensor& tensor : tensors) {
        plan::Target target;
        target.name = tensor.name;
        target.stored = target.dtype = tensor.dtype;
        target.shape = tensor.shape;
        const layout::Patch whole = layout::dense_shape(tensor.shape);
        for (const catalogue::Piece& piece : tensor.pieces) {
            if (const auto copy = layout::overlap(piece.patch, whole)) {
                target.operands.push_back({piece.file, piece.base, *copy});
            }
        }
        targets.push_back(std::move(target));
    }
    return targets;
}

std::optional<bool> ties_in(const std::string& config_text, const std::string& path) {
    if (config_text.empty()) {
        return std::nullopt;
    }
    const auto stated = models::Config::parse(config_text, path).integer("tie_word_embeddings");
    return stated ? std::optional(*stated != 0) : std::nullopt;
}

}  // namespace shardweld::app

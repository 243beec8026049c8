#include "model_directory.hpp"

#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"
#include "shardweld/layout/copy.hpp"
#include "shardweld/models/config.hpp"
#include "shardweld/mpi/share.hpp"

#include "../survey/record_check.hpp"

namespace shardweld::app {

namespace {

void require_seen(mpi::Comm& comm, const Survey& survey) {
    const auto& files = survey.catalogue.files;
    for (std::uint32_t file = 0; file < files.size(); ++file) {
        if (!survey.visibility.sees(comm.rank(), file)) {
            throw Error(ErrorCode::not_found,
                        "there is no " + (survey.location.directory / files[file].path).string() +
                            " for this rank: the model that is compared with must be seen by all "
                            "ranks");
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

execute::Source ModelDirectory::source(std::size_t max_open,
                                       std::shared_ptr<io::Throttle> throttle) const {
    return {survey.location.directory,
            &survey.catalogue.files,
            max_open,
            std::move(throttle),
            {},
            &survey.stamps,
            sums};
}

void ModelDirectory::want(const std::vector<execute::Pair>& pairs) const {
    if (!sums) {
        return;
    }
    std::vector<catalogue::Tensor> read;
    for (const execute::Pair& pair : pairs) {
        read.push_back(tensors()[pair.tensor]);
    }
    sums->want(targets_of(read));
}

void ModelDirectory::check_what_was_read(mpi::Comm& comm, const execute::Source& source) const {
    if (sums) {
        (void)execute::check_records(comm, *sums, source, survey.visibility,
                                     execute::Completion::cheap, {});
    }
}

std::optional<bool> ModelDirectory::ties() const {
    return ties_in(config_text, (survey.location.directory / "config.json").string());
}

ModelDirectory read_model_directory(mpi::Comm& comm, const fs::path& directory, CheckCrc when) {
    ModelDirectory model;
    formats::Request request;
    request.directory = directory;
    request.backend = "hf";
    request.check_crc = when != CheckCrc::off;
    model.survey = survey(comm, request);
    mpi::collectively(comm, [&] { require_seen(comm, model.survey); });
    model.config_text = share_config(comm, model.survey);
    if (request.check_crc) {
        model.sums = record_sums(model.survey.location.directory, model.survey.catalogue);
    }
    return model;
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

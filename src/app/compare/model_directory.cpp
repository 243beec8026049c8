#include "model_directory.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/names/weight_map.hpp"
#include "core/text.hpp"
#include "formats/containers/gguf_header.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/recognise.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "layout/copy.hpp"
#include "layout/patch.hpp"
#include "models/config.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "publish/config_edits.hpp"

#include "stored_tensor.hpp"

namespace shardweld::app {

namespace {

void require_seen(mpi::Comm& comm, const Checkpoint& read) {
    const auto& files = read.catalogue.files;
    for (std::uint32_t file = 0; file < files.size(); ++file) {
        if (!read.seen.sees(comm.rank(), file)) {
            throw Error(ErrorCode::not_found,
                        "there is no " + (read.location.directory / files[file].path).string() +
                            " for this rank",
                        "put the model that is compared with where all ranks see it");
        }
    }
}

std::string share_config(mpi::Comm& comm, const Checkpoint& read) {
    return mpi::share(comm, read.home, [&]() -> std::string {
        const fs::path path = read.location.directory / "config.json";
        return io::is_file(path) ? io::read_text(path, models::kMaxConfig) : "";
    });
}

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr Bytes kLongestConfig = Bytes{16} << 20U;

/// Names of the directory's files, natural order.
std::vector<std::string> list(const fs::path& directory) {
    std::vector<std::string> names = collect_list(
        io::entries_of(directory),
        [](const fs::directory_entry& entry) { return entry.path().filename().string(); });
    std::ranges::sort(names, natural_less);
    return names;
}

bool is_gguf(const std::string& name) {
    return name.ends_with(".gguf");
}

/// Reads one directory; each member adds what it finds wrong.
class DirectoryCheck {
  public:
    DirectoryCheck(const fs::path& directory, std::vector<Error>& problems)
        : directory_(directory), problems_(problems) {}

    WrittenModel run() {
        const std::vector<std::string> names = list(directory_);
        on_disk_.insert(names.begin(), names.end());
        choose_files(names);
        for (const std::string& name : weights_) {
            read_weights(name);
        }
        if (index_) {
            check_index();
        }
        check_config();
        for (auto& [name, tensor] : tensors_) {
            model_.tensors.push_back(std::move(tensor));
        }
        return std::move(model_);
    }

  private:
    void choose_files(const std::vector<std::string>& names) {
        auto found = collect_list<std::string>(names, std::identity(), [](const std::string& name) {
            return name.ends_with(".safetensors");
        });
        std::set<std::string> wanted{kSingle};
        model_.has_index = on_disk_.contains(kIndex);
        if (found.empty() && !model_.has_index) {
            std::ranges::copy_if(names, std::back_inserter(weights_), is_gguf);
        }
        model_.is_gguf = !weights_.empty();
        if (model_.is_gguf) {
            return;
        }
        if (model_.has_index) {
            try {
                index_ =
                    parse_weight_map(io::read_text(directory_ / kIndex, kLongestWeightMap), kIndex);
            } catch (const Error& error) {
                problems_.emplace_back(error.code(), error.full_text());
                weights_ = found;
                return;
            }
            wanted = named_files();
        }
        for (const std::string& name : wanted) {
            if (!on_disk_.contains(name)) {
                add_missing(name, found);
            }
        }
        for (const std::string& name : found) {
            if (wanted.contains(name)) {
                weights_.push_back(name);
            } else if (model_.has_index) {
                problems_.emplace_back(
                    ErrorCode::corrupt,
                    printable(name) +
                        " is not in the index: a stale file that some loaders would load");
            } else if (on_disk_.contains(kSingle)) {
                problems_.emplace_back(ErrorCode::corrupt, printable(name) + " lies beside " +
                                                               kSingle +
                                                               ": a stale file of another model");
            }
        }
    }

    std::set<std::string> named_files() {
        std::set<std::string> names;
        for (const std::string& file : index_->files) {
            if (!has_part(file, '/')) {
                names.insert(file);
            } else {
                problems_.emplace_back(
                    ErrorCode::corrupt,
                    "the index names the file " + printable(file) + ", which is not a plain name");
            }
        }
        return names;
    }

    void add_missing(const std::string& name, const std::vector<std::string>& found) {
        if (model_.has_index) {
            problems_.emplace_back(ErrorCode::not_found,
                                   printable(name) + " is missing, though the index names it");
        } else if (!found.empty()) {
            problems_.emplace_back(ErrorCode::not_found,
                                   std::string(kIndex) +
                                       " is missing: " + std::to_string(found.size()) +
                                       " files of weights, but no " + kSingle);
        } else {
            formats::refuse_unmerged(directory_);
            throw Error(has_other_weights() ? ErrorCode::unsupported : ErrorCode::not_found,
                        directory_.string() + " holds neither " + kSingle + " nor " + kIndex +
                            (has_other_weights() ? ": verify reads safetensors only" : ""));
        }
    }

    [[nodiscard]] bool has_other_weights() const {
        return std::ranges::any_of(on_disk_, [](const std::string& name) {
            return name.ends_with(".bin") || outputs::is_output_name(name);
        });
    }

    void read_weights(const std::string& name) {
        try {
            const io::InputFile file = io::InputFile::open(directory_ / name);
            const auto number = static_cast<std::uint32_t>(model_.files.size());
            model_.files.push_back({name, file.size()});
            for (const auto& [tensor, stored] : is_gguf(name)
                                                    ? formats::read_gguf(file).tensors
                                                    : formats::read_safetensors_header(file)) {
                add_tensor(tensor, stored, number);
            }
        } catch (const Error& error) {
            problems_.emplace_back(error.code(), printable(name) + ": " + error.full_text());
            unreadable_.insert(name);
        }
    }

    void add_tensor(const std::string& name, const formats::StoredTensor& stored,
                    std::uint32_t file) {
        const auto [known, is_new] = tensors_.emplace(name, stored_tensor(name, stored, file));
        if (!is_new) {
            problems_.emplace_back(ErrorCode::corrupt, "tensor " + printable(name) + " is in " +
                                                           file_of(known->second) + " and in " +
                                                           printable(model_.files[file].path));
        }
    }

    [[nodiscard]] std::string file_of(const catalogue::Tensor& tensor) const {
        return printable(model_.files[tensor.pieces.front().file].path);
    }

    void check_index() {
        for (const auto& [name, number] : index_->file_of) {
            const std::string& file = index_->file(number);
            const auto at = tensors_.find(name);
            if (at == tensors_.end()) {
                if (on_disk_.contains(file) && !unreadable_.contains(file)) {
                    problems_.emplace_back(ErrorCode::corrupt,
                                           "the index names the tensor " + printable(name) +
                                               ", which " + printable(file) + " does not hold");
                }
            } else if (model_.files[at->second.pieces.front().file].path != file) {
                problems_.emplace_back(ErrorCode::corrupt, "tensor " + printable(name) + " is in " +
                                                               file_of(at->second) +
                                                               ", the index says " +
                                                               printable(file));
            }
        }
        Bytes total = 0;
        for (const auto& [name, tensor] : tensors_) {
            total += tensor.pieces.front().storage_bytes;
            if (!index_->file_of.contains(name)) {
                problems_.emplace_back(ErrorCode::corrupt, "tensor " + printable(name) + " of " +
                                                               file_of(tensor) +
                                                               " is not in the index");
            }
        }
        const bool is_complete = unreadable_.empty() && weights_.size() == named_files().size();
        if (!index_->total_size) {
            problems_.emplace_back(ErrorCode::corrupt, "the index has no metadata.total_size");
        } else if (is_complete && *index_->total_size != total) {
            problems_.emplace_back(ErrorCode::corrupt, "the index's total_size is " +
                                                           std::to_string(*index_->total_size) +
                                                           ", the tensors have " +
                                                           std::to_string(total) + " bytes");
        }
    }

    void check_config() {
        if (!on_disk_.contains("config.json")) {
            problems_.emplace_back(ErrorCode::not_found, "config.json is missing");
            return;
        }
        try {
            const auto config = models::Config::parse(
                io::read_text(directory_ / "config.json", kLongestConfig), "config.json");
            for (const char* key : {"dtype", "torch_dtype"}) {
                if (const auto stated = config.text(key)) {
                    check_dtype(*stated);
                    model_.config_dtype = *stated;
                }
            }
        } catch (const Error& error) {
            problems_.emplace_back(error.code(), error.full_text());
        }
    }

    void check_dtype(const std::string& stated) {
        std::vector<catalogue::Tensor> tensors =
            collect_list(tensors_, [](const auto& one) { return one.second; });
        const auto dtype = publish::facts_of(targets_of(tensors), {}, {}).dtype;
        // 8-bit floats are weights of a quantised model, whose config states another dtype.
        if (unreadable_.empty() && !model_.is_gguf && dtype && size_of(*dtype) > 1 &&
            torch_name(*dtype) != stated) {
            problems_.emplace_back(ErrorCode::corrupt,
                                   "config.json says dtype " + printable(stated) +
                                       ", most tensors are " + torch_name(*dtype));
        }
    }

    const fs::path& directory_;
    std::set<std::string> on_disk_;
    std::vector<std::string> weights_;  ///< files that hold the model
    std::optional<WeightMap> index_;
    std::set<std::string> unreadable_;
    std::map<std::string, catalogue::Tensor> tensors_;
    WrittenModel model_;
    std::vector<Error>& problems_;
};

}  // namespace

void ModelDirectory::use_records_of(const std::vector<execute::ComparedPair>& pairs) const {
    if (!input.is_checked) {
        return;
    }
    std::vector<catalogue::Tensor> read = collect_list(
        pairs, [&](const execute::ComparedPair& pair) { return tensors[pair.reference]; });
    input.sums->use_records_of(targets_of(read));
}

std::optional<bool> ModelDirectory::ties() const {
    return ties_in(config_text, (input.directory / "config.json").string());
}

ModelDirectory read_model_directory(const Run& run, const fs::path& directory) {
    const RankMemory memory = RankMemory::measured_at_start();
    formats::JobInput request;
    request.directory = directory;
    request.backend = "hf";
    request.wants_model = true;
    request.check_crc = run.job.run.check_crc != CheckCrc::off;
    request.use = formats::Role::compared;
    Checkpoint found = survey_shown(run, request);
    mpi::collectively(run.comm, [&] { require_seen(run.comm, found); });
    std::string config = share_config(run.comm, found);
    return {input_of(found, memory, request.check_crc), std::move(found.catalogue.tensors),
            std::move(config)};
}

plan::Targets targets_of(const std::vector<catalogue::Tensor>& tensors) {
    plan::Targets targets;
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

void require_sound(const std::string& subject, const std::vector<Error>& problems) {
    if (problems.empty()) {
        return;
    }
    const bool is_missing_only = std::ranges::all_of(
        problems, [](ErrorCode code) { return code == ErrorCode::not_found; }, &Error::code);
    throw Error(
        is_missing_only ? ErrorCode::not_found : ErrorCode::corrupt,
        subject + " is not a sound model:" +
            add_up(problems,
                   [](const Error& problem) { return std::string("\n  ") + problem.what(); }),
        "merge it again, or copy it again from where it was written");
}

Bytes WrittenModel::tensor_bytes() const {
    return add_up(tensors, [](const catalogue::Tensor& tensor) {
        return tensor.pieces.front().storage_bytes;
    });
}

WrittenModel read_written_model(const fs::path& directory) {
    std::vector<Error> problems;
    WrittenModel model = DirectoryCheck(directory, problems).run();
    require_sound(directory.string(), problems);
    return model;
}

}  // namespace shardweld::app

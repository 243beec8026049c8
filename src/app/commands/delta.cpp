// The command delta: what changed between two models, as rollout engines take it.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/compare/model_directory.hpp"
#include "app/delta/delta_file.hpp"
#include "app/delta/versions.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/report/session.hpp"
#include "app/runtime/stop.hpp"
#include "core/text.hpp"
#include "io/directory.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "mpi/share.hpp"
#include "publish/lock_file.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

constexpr int kDeltaSchema = 1;
/// The share of the model's bytes from which on a delta saves little.
constexpr double kWorthwhile = 0.5;

/// A version on its way into the directory of deltas. The first rank has it, which holds the lock
/// and removes what is not published.
class NewVersion {
  public:
    NewVersion(const fs::path& directory, Index version)
        : target_(directory / version_name(version)),
          lock_(target_, publish::this_process(job_name(), job_restarts())) {
        if (io::kind_at(target_) != io::FileKind::none) {
            throw Error(ErrorCode::locked, "another run has just written " + target_.string(),
                        "run the command again, with the model of that version as PREV");
        }
        fs::remove_all(partial());
        fs::create_directory(partial());
    }
    NewVersion(const NewVersion&) = delete;
    NewVersion& operator=(const NewVersion&) = delete;
    ~NewVersion() {
        std::error_code ignored;
        fs::remove_all(partial(), ignored);
    }

    [[nodiscard]] fs::path partial() const { return partial_of(target_); }

    /// The name under which `target` is written.
    static fs::path partial_of(const fs::path& target) {
        return target.parent_path() / ("." + target.filename().string() + ".shardweld-partial");
    }

    void publish() {
        fs::rename(partial(), target_);
        io::sync_directory(target_.parent_path());
    }

  private:
    fs::path target_;
    publish::TargetLock lock_;
};

/// What a run has written, for people and programs.
struct WrittenDelta {
    fs::path directory;
    Index version = 0;
    std::size_t n_tensors = 0;
    std::size_t n_changed = 0;
    std::size_t n_files = 0;
    std::size_t n_proved = 0;  ///< tensors of the old model whose digests an earlier version lists
    Bytes delta_bytes = 0;
    Bytes model_bytes = 0;

    [[nodiscard]] bool pays() const {
        return static_cast<double>(delta_bytes) < kWorthwhile * static_cast<double>(model_bytes);
    }
};

WrittenModel read_safetensors_model(const fs::path& directory) {
    WrittenModel model = read_written_model(directory);
    if (model.is_gguf) {
        throw Error(ErrorCode::unsupported, directory.string() + " is a GGUF model",
                    "give HuggingFace models in safetensors");
    }
    return model;
}

/// Collective.
ModelPair read_pair(mpi::Comm& comm, const Options& options) {
    ModelPair pair{options.local_dir, options.reference, {}, {}};
    pair.old_model = mpi::share(comm, 0, [&] { return read_safetensors_model(options.local_dir); });
    pair.new_model = mpi::share(comm, 0, [&] { return read_safetensors_model(options.reference); });
    require_same_tensors(pair);
    return pair;
}

/// Collective. Ranks take the parts in turns. What became of each part, in their order.
std::vector<DeltaFile> write_files(mpi::Comm& comm, const ModelPair& pair,
                                   const fs::path& directory) {
    const std::vector<TensorRange> parts = parts_of(pair.new_model);
    const auto n_ranks = static_cast<std::size_t>(comm.size());
    std::vector<DeltaFile> mine;
    mpi::collectively(comm, [&] {
        for (auto part = static_cast<std::size_t>(comm.rank()); part < parts.size();
             part += n_ranks) {
            mine.push_back(write_delta_file(pair, parts[part], directory / part_name(part)));
        }
    });
    std::vector<std::vector<DeltaFile>> by_rank = mpi::gather(comm, std::move(mine));
    std::vector<DeltaFile> files;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        files.push_back(std::move(by_rank[part % n_ranks][part / n_ranks]));
    }
    return files;
}

void count_tensors(const std::vector<DeltaFile>& files, WrittenDelta& written) {
    for (const DeltaFile& file : files) {
        written.n_files += file.size > 0 ? 1U : 0U;
        written.n_tensors += file.tensors.size();
        for (const DeltaTensor& tensor : file.tensors) {
            written.n_changed += tensor.stored > 0 ? 1U : 0U;
        }
    }
}

std::string base_text(const WrittenDelta& written) {
    if (written.version == 1) {
        return "no version before it: PREV is version 000000";
    }
    const std::size_t n_unlisted = written.n_tensors - written.n_proved;
    return counted(written.n_proved, "tensor") + " of PREV proved to be those of " +
           version_name(written.version - 1) +
           (n_unlisted == 0 ? ""
                            : "; " + std::to_string(n_unlisted) +
                                  " that no version lists could not be looked at");
}

std::string delta_text(const WrittenDelta& written) {
    const std::string share = percent_text(static_cast<double>(written.delta_bytes),
                                           static_cast<double>(written.model_bytes));
    return table({Align::left, Align::left},
                 {{"version", (written.directory / version_name(written.version)).string()},
                  {"changed", std::to_string(written.n_changed) + " of " +
                                  counted(written.n_tensors, "tensor") + ", in " +
                                  counted(written.n_files, "file") + ", read back and proved"},
                  {"bytes", human_bytes(written.delta_bytes) + " beside the model's " +
                                human_bytes(written.model_bytes) + " (" + share + ")"},
                  {"base", base_text(written)}});
}

std::string delta_json(const WrittenDelta& written) {
    return json_text({{"schema", kDeltaSchema},
                      {"command", "delta"},
                      {"directory", (written.directory / version_name(written.version)).string()},
                      {"version", version_digits(written.version)},
                      {"base_version", version_digits(written.version - 1)},
                      {"tensors", written.n_tensors},
                      {"changed", written.n_changed},
                      {"files", written.n_files},
                      {"delta_bytes", written.delta_bytes},
                      {"model_bytes", written.model_bytes},
                      {"base_tensors_proved", written.n_proved},
                      {"pays", written.pays()}});
}

}  // namespace

int delta(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    const ModelPair pair = read_pair(comm, options);
    WrittenDelta written{options.target_dir, 0, 0, 0, 0, 0, 0, pair.new_model.tensor_bytes()};
    History history;
    std::optional<NewVersion> place;  // of the first rank
    written.version = mpi::share(comm, 0, [&] {
        fs::create_directories(written.directory);
        history = read_history(written.directory);
        place.emplace(written.directory, history.last + 1);
        return history.last + 1;
    });
    const std::vector<DeltaFile> files = write_files(
        comm, pair, NewVersion::partial_of(written.directory / version_name(written.version)));
    count_tensors(files, written);
    mpi::collectively(comm, [&] {
        if (place) {
            written.n_proved = require_base(history, files, pair, written.directory);
            written.delta_bytes = complete_version(place->partial(), written.version, files);
            place->publish();
        }
    });
    print(comm, out, [&] { return options.json ? delta_json(written) : delta_text(written); });
    if (comm.rank() == 0 && !written.pays()) {
        log.warning(
            "the delta is more than half as large as the model: sending the model itself "
            "costs little more");
    }
    return 0;
}

}  // namespace shardweld::app

#include "write_delta.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "app/compare/model_directory.hpp"
#include "app/messages/table.hpp"
#include "app/runtime/stop.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "io/directory.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "mpi/share.hpp"
#include "publish/lock_file.hpp"
#include "publish/room.hpp"
#include "shardweld/error.hpp"

#include "delta_file.hpp"
#include "versions.hpp"

namespace shardweld::app {

namespace {

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
    NewVersion(NewVersion&&) = delete;
    NewVersion& operator=(NewVersion&&) = delete;
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

WrittenModel read_safetensors_model(const fs::path& directory) {
    WrittenModel model = read_written_model(directory);
    if (model.is_gguf) {
        throw Error(ErrorCode::unsupported, directory.string() + " is a GGUF model",
                    "give HuggingFace models in safetensors");
    }
    return model;
}

/// Collective.
ModelPair read_pair(mpi::Comm& comm, const DeltaRequest& request) {
    ModelPair pair{request.previous, request.model, {}, {}};
    pair.old_model = mpi::share(comm, 0, [&] { return read_safetensors_model(request.previous); });
    pair.new_model = mpi::share(comm, 0, [&] { return read_safetensors_model(request.model); });
    require_same_tensors(pair);
    return pair;
}

/// Does something with a part, and tells of its bytes.
using OnPart = std::function<void(std::size_t part, TensorRange tensors, const OnPiece&)>;

/// Collective. Ranks take the parts in turns.
void for_parts(mpi::Comm& comm, const WrittenModel& model, const std::string& phase,
               const DeltaWork& work, const OnPart& on_part) {
    const std::vector<TensorRange> parts = parts_of(model);
    const auto n_ranks = static_cast<std::size_t>(comm.size());
    Bytes own = 0;
    for (auto part = static_cast<std::size_t>(comm.rank()); part < parts.size(); part += n_ranks) {
        own += bytes_of(model, parts[part]);
    }
    const auto total = static_cast<Index>(model.tensor_bytes());
    const auto show = shown(work.progress, phase);
    mpi::run_freely(comm, work.why_stop, [&](const mpi::OnStep& step) {
        Bytes done = 0;
        const OnPiece on_piece = [&](Bytes moved, Bytes compared) {
            step();
            done += compared;
            show(static_cast<Index>(done), static_cast<Index>(own), total);
            if (work.throttle != nullptr) {
                work.throttle->take(moved);
            }
        };
        for (auto part = static_cast<std::size_t>(comm.rank()); part < parts.size();
             part += n_ranks) {
            on_part(part, parts[part], on_piece);
        }
    });
    work.progress.end();
}

/// Collective. What became of each part, in their order.
std::vector<DeltaFile> write_files(mpi::Comm& comm, const ModelPair& pair,
                                   const fs::path& directory, const DeltaWork& work) {
    std::map<std::size_t, DeltaFile> mine;
    for_parts(comm, pair.new_model, "writing the delta", work,
              [&](std::size_t part, TensorRange tensors, const OnPiece& on_piece) {
                  mine[part] =
                      write_delta_file(pair, tensors, directory / part_name(part), on_piece);
              });
    std::map<std::size_t, DeltaFile> all;
    for (auto& some : mpi::gather(comm, std::move(mine))) {
        all.merge(some);
    }
    std::vector<DeltaFile> files;
    files.reserve(all.size());
    for (auto& [part, file] : all) {
        files.push_back(std::move(file));
    }
    return files;
}

/// Collective. Whether the last version leads to the new model: what versions list is what they
/// say, and the rest has not changed.
bool is_led_to(mpi::Comm& comm, const ModelPair& pair, const History& history,
               const DeltaWork& work) {
    const auto& tensors = pair.new_model.tensors;
    bool is_so =
        history.last > 0 && std::ranges::all_of(history.digest_of, [&](const auto& listed) {
            return std::ranges::binary_search(tensors, listed.first, {}, &catalogue::Tensor::name);
        });
    if (is_so) {
        for_parts(comm, pair.new_model, "looking at the last delta", work,
                  [&](std::size_t /*part*/, TensorRange part, const OnPiece& on_piece) {
                      is_so = is_so && is_as_listed(pair, part, history.digest_of, on_piece);
                  });
    }
    return comm.all_max(is_so ? 0 : 1) == 0;
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

/// Error(not_found) or Error(io) unless versions can be made in a directory, which may be missing.
void require_writable(const fs::path& versions) {
    const fs::path place = publish::nearest_existing(io::resolved(versions));
    if (!io::is_directory(place)) {
        throw Error(ErrorCode::not_found, place.string() + " is not a directory",
                    "name a directory for the versions");
    }
    if (::eaccess(place.c_str(), W_OK | X_OK) != 0) {
        throw Error(ErrorCode::io,
                    "no right to write in " + place.string() + ": " + text_of_errno(errno),
                    "name another directory for the versions");
    }
}

}  // namespace

bool WrittenDelta::pays() const {
    return static_cast<double>(delta_bytes) < kWorthwhile * static_cast<double>(model_bytes);
}

void check_delta(const fs::path& previous, const fs::path& versions) {
    require_writable(versions);
    if (!previous.empty()) {
        (void)read_safetensors_model(previous);
    }
    (void)read_history(versions);
}

WrittenDelta write_delta(mpi::Comm& comm, const DeltaRequest& request, const DeltaWork& work) {
    const ModelPair pair = read_pair(comm, request);
    const History history = mpi::share(comm, 0, [&] {
        require_writable(request.versions);
        fs::create_directories(request.versions);
        return read_history(request.versions);
    });
    WrittenDelta written;
    written.was_there = request.may_be_there && is_led_to(comm, pair, history, work);
    written.version = history.last + (written.was_there ? 0 : 1);
    written.directory = request.versions / version_name(written.version);
    if (written.was_there) {
        return written;
    }
    written.model_bytes = pair.new_model.tensor_bytes();
    std::optional<NewVersion> place;  // of the first rank
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            place.emplace(request.versions, written.version);
        }
    });
    const std::vector<DeltaFile> files =
        write_files(comm, pair, NewVersion::partial_of(written.directory), work);
    count_tensors(files, written);
    mpi::collectively(comm, [&] {
        if (place) {
            written.n_proved = require_base(history, files, pair, request.versions);
            written.delta_bytes = complete_version(place->partial(), written.version, files);
            place->publish();
        }
    });
    return written;
}

std::string changes_text(const WrittenDelta& written) {
    return std::to_string(written.n_changed) + " of " + counted(written.n_tensors, "tensor") +
           ", in " + counted(written.n_files, "file") + ", read back and proved";
}

std::string sizes_text(const WrittenDelta& written) {
    return human_bytes(written.delta_bytes) + " beside the model's " +
           human_bytes(written.model_bytes) + " (" +
           percent_text(static_cast<double>(written.delta_bytes),
                        static_cast<double>(written.model_bytes)) +
           ")";
}

void say_delta(const WrittenDelta& written, Log& log) {
    if (written.was_there) {
        log.info(written.directory.string() + " leads to the model already");
        return;
    }
    log.info("delta " + written.directory.string() + ": " + changes_text(written) + "; " +
             sizes_text(written));
    warn_unless_it_pays(written, log);
}

void warn_unless_it_pays(const WrittenDelta& written, Log& log) {
    if (!written.pays()) {
        log.warning(
            "the delta is more than half as large as the model: sending the model itself "
            "costs little more");
    }
}

}  // namespace shardweld::app

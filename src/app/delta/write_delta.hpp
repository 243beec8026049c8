// A delta as one piece of work of all ranks: read, written, proved and published as the next
// version.
#pragma once

#include <string>

#include "app/messages/log.hpp"
#include "app/messages/progress.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "io/throttle.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"

namespace shardweld::app {

/// What is asked for.
struct DeltaRequest {
    fs::path previous;  ///< the model that is there already
    fs::path model;     ///< the one that it became
    fs::path versions;  ///< the directory of the versions
    /// An earlier run may have made it: nothing is written where the last version leads to `model`.
    bool may_be_there = false;
};

/// How the work is shown, held back and stopped.
struct DeltaWork {
    Progress& progress;
    io::Throttle* throttle = nullptr;  ///< this rank's share of --bw_limit; null: none
    mpi::WhyStop why_stop = {};
};

/// What a run has written.
struct WrittenDelta {
    fs::path directory;  ///< of the version
    Index version = 0;
    bool was_there = false;  ///< an earlier run made it, and the numbers below are 0
    std::size_t n_tensors = 0;
    std::size_t n_changed = 0;
    std::size_t n_files = 0;
    std::size_t n_proved = 0;  ///< tensors of the old model whose digests an earlier version lists
    Bytes delta_bytes = 0;
    Bytes model_bytes = 0;

    /// Whether it is so much smaller than the model that it is worth sending.
    [[nodiscard]] bool pays() const;
};

/// Local. What can be known before there is a model: `previous`, unless it is "", is a sound model
/// in safetensors; versions can be made in `versions`, and those that are there can be read. Errors
/// of read_written_model and read_history; Error(unsupported) for GGUF; Error(io) and
/// Error(not_found) for a directory that cannot be written, or made.
void check_delta(const fs::path& previous, const fs::path& versions);

/// Collective. Writes the next version, the same at any number of ranks. What this run leaves when
/// it fails is nothing. Error(mismatch) when the models do not fit each other or the last version;
/// Error(corrupt), Error(locked), Error(io), Error(space), Error(stopped).
WrittenDelta write_delta(mpi::Comm& comm, const DeltaRequest& request, const DeltaWork& work);

/// Says what was written in one line, and warns where it does not pay.
void say_delta(const WrittenDelta& written, Log& log);
void warn_unless_it_pays(const WrittenDelta& written, Log& log);

/// "6 of 13 tensors, in 1 file, read back and proved" and "69.0 MB beside the model's 2.01 GB (3.4
/// %)".
std::string changes_text(const WrittenDelta& written);
std::string sizes_text(const WrittenDelta& written);

}  // namespace shardweld::app

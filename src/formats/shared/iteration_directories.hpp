// Which of several saved iterations a directory means, by the names that trainers give iterations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"

#include "directory_listing.hpp"

namespace shardweld::formats {

inline constexpr const char* kTrackerFile = "latest_checkpointed_iteration.txt";

/// One saved iteration: iter_0000010, global_step_10, checkpoint-10, step-10, epoch=0-step=10.ckpt
/// or release (no number).
struct IterationDirectory {
    std::optional<Index> iteration;
    std::string directory;
    bool has_tracker = true;  ///< the trainer that names its saves so says which is the last
};

/// What a file beside saves says of the last one.
struct LastSave {
    std::string file;                ///< its name
    std::optional<Index> iteration;  ///< not given: it names none, or is being written
};
/// What all such files say that a directory holds. Error(io) when one cannot be read.
std::vector<LastSave> last_saves(const fs::path& directory, const Listing& listing);

/// Whether the directory at `path` holds one that names a directory, as all but the tracker do.
bool has_tag_file(const fs::path& path);

/// nullopt when `directory` is no such name.
std::optional<IterationDirectory> parse_step(std::string_view directory);

/// The step to take in `directory`, with a note when it had to be guessed: the one asked for, else
/// the one the tracker file names, else the only one; nullopt when there are none at all.
/// Error(corrupt) when the tracker leads out of the directory, Error(not_found) when the step asked
/// for or named is absent, Error(mismatch) when two directories bear its number. Where there
/// are several and no tracker, the newest if its trainer writes none, else Error(usage).
struct StepChoice {
    std::string directory;
    std::string note;  ///< "" if nothing needs saying
};
std::optional<StepChoice> choose_step(const fs::path& directory, const Listing& listing,
                                      std::optional<Index> wanted);

/// The iteration that a shards' directory bears in its name or in that of the step it is part of
/// (global_step_10/actor/dist_ckpt).
std::optional<Index> iteration_of(const fs::path& directory);

/// What the directory of a checkpoint's shards says of its iteration: by its name or that of the
/// step it is part of (iter_0000010, global_step_10/actor/dist_ckpt), by a tracker file in it, and,
/// as kTrainerStep, by the state that transformers' Trainer keeps: directories of models are called
/// anything, so that one is held against the optimizer alone, and read with its states only.
inline constexpr const char* kTrainerStep = "the trainer's step";
std::vector<FileAssertion> steps_stated(const fs::path& directory, bool has_states);

}  // namespace shardweld::formats

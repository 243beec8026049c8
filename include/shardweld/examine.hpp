// Looking at checkpoints and models: what they hold, what a merge would do and write, whether a
// model is whole and equal to another one.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "shardweld/comm.hpp"
#include "shardweld/events.hpp"
#include "shardweld/merge.hpp"

namespace shardweld {

/// What was found, on rank 0.
struct Examination {
    bool is_good = true;  ///< nothing is wrong or different; on all ranks
    std::string why;      ///< what is, in a sentence; "" where is_good
    std::string json;     ///< in full, as the command of the same name prints it with --json
};

/// A directory to look at, and how.
struct ExamineRequest {
    std::filesystem::path directory;
    /// Options of the command of the same name, as in MergeRequest::options.
    std::map<std::string, std::string> options;
};

// All are collective. Errors as merge's; a difference or fault that the command
// exists to find is no Error but an Examination that is not good. Each takes Events as merge does.

/// What a checkpoint holds: format, parallel sizes, provenance, every stored tensor. Reads
/// metadata.
Examination inspect_checkpoint(const Comm& comm, const ExamineRequest& request, Events& events);

/// What merge would do with `request` on `n_ranks` ranks: files, rounds, memory, time. Writes
/// nothing, so that the outputs need no directory. Not good: what would end the merge, as warnings
/// under the option strict.
Examination plan_merge(const Comm& comm, const MergeRequest& request, int n_ranks, Events& events);

/// Whether merge would write the model in `reference`; assembles all tensors and writes none.
Examination test_merge(const Comm& comm, const MergeRequest& request,
                       const std::filesystem::path& reference, Events& events);

/// Whether two models' tensors are equal, within the options atol and rtol.
Examination diff_models(const Comm& comm, const ExamineRequest& request,
                        const std::filesystem::path& reference, Events& events);

/// Whether a written model keeps the format's rules, and has the checksums of its merge's report:
/// `report`, or, where that is empty, the shardweld_report.json in its directory, if there is one.
Examination verify_model(const Comm& comm, const ExamineRequest& request,
                         const std::filesystem::path& report, Events& events);

}  // namespace shardweld

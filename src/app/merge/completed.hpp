// What an output that lies on the disk is: `verify` reads it against the rules of its format, its
// index and its report, and --if_complete asks whether it is what this merge would write.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/compare/model_directory.hpp"
#include "app/messages/log.hpp"
#include "app/report/run.hpp"
#include "app/settings/job.hpp"
#include "mpi/comm.hpp"

#include "state.hpp"

namespace shardweld::app {

/// What was found to be in order, or not.
struct VerifyResult {
    WrittenModel model;
    bool has_report = false;
    std::size_t n_hashed = 0;  ///< files of which the SHA-256 was compared
    std::string root;
    std::vector<std::string> differences;
};

/// Collective. Looks at the model that lies in `output.directory`; where its report is looked for
/// and there is one, given or kept in the directory, at all tensors, too, against their checksums,
/// and at files' hashes if they count. Error(corrupt) or Error(not_found) listing the rules broken;
/// Error(usage) for hashes without a report. `listing` is the first rank's: a report without
/// checksums, which says where tensors lie if there is no other.
VerifyResult verify_model(mpi::Comm& comm, const Job& job, const JobOutput& output, Log& log,
                          bool has_hashes = false, bool has_report = true,
                          const std::string& listing = {});

/// xxh3-128 of the text of the model's config.json, in hex.
std::string config_digest(const std::string& text);

/// Collective. Leaves out the outputs behind the first that an earlier run, which did not get to
/// the first one, has made appear.
void leave_published(const Run& run, Merge& merge);

/// Collective. Whether anything lies where the first output will be.
bool has_target(const Run& run, const Merge& merge);

/// Collective. Looks at what lies at the targets, where --if_complete asks for it; the checkpoint
/// is found. Other outputs that are complete are left out; where every one is, the run's report
/// says that it is left alone. Why the first is not complete; "" if it is. Error(differs) where
/// tensors are not the report's and --overwrite is not given.
std::string look_at_outputs(const Run& run, Merge& merge);

}  // namespace shardweld::app

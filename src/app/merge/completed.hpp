// What an output that lies on the disk is: `verify` reads it against the rules of its format, its
// index and its report, and --if_complete asks whether it is what this merge would write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/compare/model_directory.hpp"
#include "app/messages/log.hpp"
#include "app/report/session.hpp"
#include "app/settings/job.hpp"
#include "mpi/comm.hpp"

#include "sources.hpp"

namespace shardweld::app {

/// What was found to be in order, or not.
struct Findings {
    WrittenModel model;
    bool has_report = false;
    std::size_t n_hashed = 0;  ///< files of which the SHA-256 was compared
    std::string root;
    std::vector<std::string> differences;
};

/// What else than the model itself is looked at.
struct Evidence {
    bool has_hashes = false;  ///< those of files count, too
    bool has_report = true;   ///< false: a report is not looked for
};

/// Collective. Looks at the model that lies in `output.directory`; where its report is to be looked
/// for and there is one, given or kept in the directory, at all tensors, too, against their
/// checksums, and at files' hashes if they count. Error(corrupt) or Error(not_found) listing the
/// rules broken; Error(usage) for hashes without a report.
Findings verify_model(mpi::Comm& comm, const Job& job, const JobOutput& output, Evidence evidence,
                      Log& log);

/// xxh3-128 of the text of the model's config.json, in hex.
std::string config_digest(const std::string& text);

/// Collective. Without the outputs behind the first that an earlier run, which did not get to the
/// first one, has made appear.
Outputs without_published(const Outputs& outputs);

/// What --if_complete found out.
struct Completeness {
    bool is_whole = false;           ///< every output is there
    std::string why_not;             ///< of the first output, "" if nothing lies there
    std::optional<Sources> sources;  ///< of the checkpoint, if it was looked for
};

/// Collective. Looks at what lies at the targets, where --if_complete asks for it. Other outputs
/// that are complete are left out of `outputs`, as is all work where every one is. Error(differs)
/// where tensors are not the report's and --overwrite is not given.
Completeness look_at_outputs(Outputs& outputs);

}  // namespace shardweld::app

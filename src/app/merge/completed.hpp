// What an output that lies on the disk is: `verify` reads it against the rules of its format, its
// index and its report, and --if_complete asks whether it is what this merge would write.
#pragma once

#include <string>
#include <vector>

#include "app/compare/model_directory.hpp"
#include "app/messages/log.hpp"
#include "app/report/session.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"

#include "main_path.hpp"

namespace shardweld::app {

/// What was found to be in order, or not.
struct Findings {
    WrittenModel model;
    bool has_report = false;
    std::size_t n_hashed = 0;  ///< files of which the SHA-256 was compared
    std::string root;
    std::vector<std::string> differences;
};

/// Collective. Looks at the model `options.local_dir`; with `options.report` at all tensors, too,
/// against their checksums. Error(corrupt) or Error(not_found) listing the rules broken.
Findings verify_model(mpi::Comm& comm, const Options& options, Log& log);

/// xxh3-128 of the text of the model's config.json, in hex.
std::string config_digest(const std::string& text);

/// Collective. Whether anything lies at a target.
bool holds_anything(mpi::Comm& comm, const fs::path& target);

/// Collective. Why the target of `session` is not known to be what this merge would write; "" if it
/// is: its report tells of a run with the same options that succeeded, the input files and
/// config.json are as they were then, and the output has the files and sizes of the report, with
/// headers and an index that keep the rules. With --if_complete verify all tensors are read, too:
/// Error(differs) where they are not the report's and --overwrite is not given.
std::string why_not_complete(const Session& session, Sources& sources);

}  // namespace shardweld::app

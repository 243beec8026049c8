// Whether a target holds this merge's output already, whole: --if_complete.
// Knows the report of the run that wrote it and what is on the disk; plans nothing.
#pragma once

#include <string>

#include "app/report/session.hpp"

#include "main_path.hpp"

namespace shardweld::app {

/// xxh3-128 of the text of the model's config.json, in hex.
std::string config_digest(const std::string& text);

/// Collective. Whether anything lies at a target.
bool holds_anything(mpi::Comm& comm, const fs::path& target);

/// Collective. Why the target of `session` is not known to be what this merge would write; "" if it
/// is: its report tells of a run with the same options that succeeded, the input files and
/// config.json are as they were then, and the output has the files and sizes of the report, with
/// headers and an index that keep the rules. With --if_complete verify all tensors are read, too:
/// Error(differs) where they are not the report's and --overwrite is not given.
std::string why_not_complete(Session& session, Sources& sources);

}  // namespace shardweld::app

// Moves the tensors of a plan: checksums, files, bytes, and a look at what was written. Knows the
// order of the steps; nothing of what becomes of finished tensors.
#pragma once

#include <string>

#include "shardweld/execute/run.hpp"

#include "main_path.hpp"

namespace shardweld::app {

/// Collective; nothing without --check_crc before. Reads all records and compares them with the
/// checksums in the files. Error(corrupt), Error(stopped).
void check_crcs(Session& session, const Planned& planned, const mpi::WhyStop& why_stop);

/// Collective. Creates the plan's files in `directory`, which settles where in them tensors lie.
execute::CreatedFiles create_files(Session& session, Planned& planned,
                                   const io::Directory& directory);

/// Collective. Executes the plan with `options` (progress and digests are set here), what is not
/// done yet shared evenly; bytes that are not as the records' checksums say are Error(corrupt),
/// replicas that differ Error(mismatch). `directory` as in execute::run.
execute::Written move_tensors(Session& session, Planned& planned, const io::Directory& directory,
                              execute::RunOptions options);

/// Collective, when nothing is written any more: execute::check_written.
void check_written(Session& session, const Planned& planned, const io::Directory& directory,
                   const execute::CreatedFiles& created, const execute::Written& written,
                   const mpi::WhyStop& why_stop);

}  // namespace shardweld::app

// Moves the tensors of a plan: checksums, files, bytes, and a look at what was written.
#pragma once

#include <vector>

#include "execute/run.hpp"

#include "planned.hpp"

namespace shardweld::app {

/// Collective; nothing without --check_crc before. Reads all records and compares them with the
/// checksums in the files. Error(corrupt), Error(stopped).
void check_crcs(Session& session, const Planned& planned, const mpi::WhyStop& why_stop);

/// Collective. Creates the plan's files in `directory`, which settles where in them tensors lie.
execute::CreatedFiles create_files(Output& output, const io::Directory& directory);

/// Collective. Gathers the factors of folds and the scales of codes in the file kFactors of
/// `directory`, which all ranks read, and takes the norms that they need.
void make_factors(Session& session, Planned& planned, const io::Directory& directory,
                  const mpi::WhyStop& why_stop);

/// Where and how one output is written.
struct Moving {
    const io::Directory& directory;  ///< as in execute::run
    execute::RunOptions options;     ///< progress and digests are set by move_tensors
};

/// Collective. Executes the plans of all outputs, each as `moving` says at its place, in the rounds
/// of the first one's, what is not done yet shared evenly; bytes that are not as the records'
/// checksums say are Error(corrupt), replicas that differ Error(mismatch). By output what was
/// written.
std::vector<execute::Written> move_tensors(Planned& planned, std::vector<Moving> moving);

/// Collective, when nothing is written any more: execute::check_written.
void check_written(const Output& output, const io::Directory& directory,
                   const execute::CreatedFiles& created, const execute::Written& written,
                   const mpi::WhyStop& why_stop);

}  // namespace shardweld::app

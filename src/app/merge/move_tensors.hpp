// Moves the tensors of a plan: checksums, files, bytes, and a look at what was written.
#pragma once

#include <vector>

#include "execute/run.hpp"
#include "io/directory.hpp"
#include "mpi/free_run.hpp"

#include "state.hpp"

namespace shardweld::app {

/// Collective; nothing without --check_crc before. Reads all records and compares them with the
/// checksums in the files. Error(corrupt), Error(stopped).
void check_crcs(const Run& run, const Merge& merge, const mpi::WhyStop& why_stop);

/// Collective. Creates the plan's files in the output's directory, which settles where in them
/// tensors lie.
void create_files(const Run& run, Output& output);

/// Collective. Gathers the factors of folds and the scales of codes in the file kFactors of
/// `directory`, which all ranks read, and takes the norms that they need.
void make_factors(const Run& run, Merge& merge, const io::Directory& directory,
                  const mpi::WhyStop& why_stop);

/// Collective; nothing where no scales have divisors. Reads all weights whose scales have: a
/// divisor is made of the largest value of those that share it, before any row is. `factors`: the
/// file with those of a fold.
void take_divisors(const Run& run, const Input& input, const fs::path& factors, Output& output,
                   const mpi::WhyStop& why_stop);

/// Collective. Executes the plans of all outputs, each in its directory and as `options` say at its
/// place, but for progress and digests, in the rounds of the first one's, what is not done yet
/// shared evenly; bytes that are not as the records' checksums say are Error(corrupt), replicas
/// that differ Error(mismatch). Each output knows then what was written.
void move_tensors(const Run& run, Merge& merge, std::vector<execute::RunOptions> options);

/// Collective, when nothing is written any more: execute::check_written.
void check_written(const Run& run, const Output& output, const mpi::WhyStop& why_stop);

}  // namespace shardweld::app

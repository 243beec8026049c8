// Checksums of an output's files, for its report: taken of what lies in the partial directory, so
// that what is published is what they are of.
#pragma once

#include "mpi/free_run.hpp"

#include "state.hpp"

namespace shardweld::app {

/// Collective. SHA-256 of every file, where it is asked for (--sha256). Error(io), Error(stopped).
void hash_files(const Run& run, const Merge& merge, Output& output, const mpi::WhyStop& why_stop);

/// Collective. What the files of a training checkpoint hold beside tensors, and what lies beside a
/// model's states: no tensor's checksum is of it, and a run goes on with it. Error as hash_files.
void sum_rests(const Run& run, const Merge& merge, Output& output, const mpi::WhyStop& why_stop);

}  // namespace shardweld::app

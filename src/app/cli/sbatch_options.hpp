// The options of `plan --sbatch`.
// Knows which of plan's options the merge of a job script is given; knows no script.
#pragma once

#include "arguments.hpp"
#include "options.hpp"

namespace shardweld::app {

/// Sets options.job, and options.n_ranks where the command line does not; call it after the other
/// options are read. Error(usage).
void read_job(const Arguments& arguments, Options& options);

}  // namespace shardweld::app

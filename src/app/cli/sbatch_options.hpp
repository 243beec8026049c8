// The command lines of a job script (plan --sbatch).
// Knows which of plan's options its steps are given; knows no script.
#pragma once

#include "app/settings/options.hpp"

#include "arguments.hpp"

namespace shardweld::app {

/// Fills options.merge_words in, and options.job, where --sbatch asks for one, and options.n_ranks
/// where the command line does not say it; after all options are read and checked.
void complete_job(const Arguments& arguments, Options& options);

}  // namespace shardweld::app

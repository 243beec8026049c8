// `plan --sbatch`: a planned merge as a job script for Slurm.
// Knows sbatch's options and what a plan forecasts; nothing of clusters, partitions or accounts.
#pragma once

#include <string>
#include <string_view>

#include "plan_shown.hpp"

namespace shardweld::app {

/// A script that merges with the plan's ranks, is told before its time limit, and resumes. Memory
/// is the forecast's peak with room beside it; time is the plan's bytes at the job's rate.
std::string job_script(const PlannedMerge& merge, const JobRequest& job);

/// What slurm/resume.sbatch does with the arrays `step` and `merge` and with `target`: the text
/// behind its mark.
std::string_view end_of_job_script();

}  // namespace shardweld::app

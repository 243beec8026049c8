// Which strategy a plan takes, and how much of the replicas it compares.
#pragma once

#include <string>
#include <vector>

#include "catalogue/file.hpp"
#include "plan/binding.hpp"
#include "plan/job_plan.hpp"
#include "plan/visibility.hpp"

namespace shardweld::plan {

struct Plan;

/// The strategy that was chosen, and why.
struct Decision {
    Strategy strategy = Strategy::direct;
    std::string why;
};

/// Files that some rank does not see.
std::size_t hidden_files(const Visibility& visibility, const std::vector<catalogue::File>& files);

/// The strategy that is asked for; if none is, direct, unless owners would read much again and
/// again. The plan's
/// readers, and its limits under `direct`, are set.
Decision decide(const Plan& plan, const std::vector<catalogue::File>& files, const JobPlan& choice);

/// Sets what a plan's targets and placement say of its replicas: how many there are and what of
/// them is compared; takes out those that are known to be equal. Samples are spread such that no
/// owner reads more than a twentieth on top. `records` may be null.
void choose_samples(Plan& plan, Replicas asked, const catalogue::Records* records);

}  // namespace shardweld::plan

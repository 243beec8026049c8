// Replicas are equal: what is said when they are not, or when not all of them are compared.
// Knows plans and results; compares nothing itself.
#pragma once

#include <vector>

#include "execute/run.hpp"

namespace shardweld::app {

/// Collective. Error(mismatch) naming the first tensor and the two files whose copies differ.
void require_equal_replicas(mpi::Comm& comm, const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files);

/// `replicas_sampled`, when only a part of the replicas will be compared.
std::vector<plan::Warning> sampling_warnings(const plan::Plan& plan);

}  // namespace shardweld::app

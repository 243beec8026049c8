// Copies that are equal: those that must equal another tensor (`same` rules, tied heads) are
// compared before anything is written, and replicas while tensors are moved.
#pragma once

#include <vector>

#include "app/messages/warnings.hpp"
#include "execute/run.hpp"
#include "mpi/comm.hpp"
#include "plan/binding.hpp"
#include "plan/job_plan.hpp"
#include "plan/visibility.hpp"

namespace shardweld::app {

/// A copy that does not equal its original.
struct Untied {
    std::string stored_name;  ///< "output_layer.weight"
    std::string target;       ///< "model.embed_tokens.weight"
    Index n_elements = 0;
    plan::SamePair::Why why = plan::SamePair::Why::tied;
};

/// Collective. Compares every `same` pair in full, and drops the copies: where all agree, they need
/// no second look.
std::vector<Untied> compare_same(mpi::Comm& comm, plan::Binding& binding,
                                 const execute::SourceFiles& source,
                                 const plan::Visibility& visibility, const plan::JobPlan& choice);

/// Collective. Error(mismatch) naming the first tensor and the two files whose copies differ, or
/// whose master is not that of the weight. `doubt`: what is known to go wrong with such masters, on
/// the first rank; "" for nothing.
void require_equal_replicas(mpi::Comm& comm, const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files,
                            const std::string& doubt = "");

/// `replicas_sampled`, when only a part of the replicas will be compared.
Warnings sampling_warnings(const plan::Plan& plan);

}  // namespace shardweld::app

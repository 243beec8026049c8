// Copies that must equal another tensor (`same` rules, tied heads): compared before anything is
// written. Knows bindings and how to run a comparison; nothing of which tensors are tied.
#pragma once

#include <vector>

#include "execute/run.hpp"
#include "mpi/comm.hpp"
#include "plan/binding.hpp"
#include "plan/choice.hpp"
#include "plan/visibility.hpp"

namespace shardweld::app {

/// A copy that does not equal its original.
struct Untied {
    std::string stored_name;  ///< "output_layer.weight"
    std::string target;       ///< "model.embed_tokens.weight"
    Index n_elements = 0;
    plan::SamePair::Why why = plan::SamePair::Why::tied;
};

/// Collective. Compares every `same` pair in full and, where all agree, takes the copies out of the
/// binding's replicas: they need no second look.
std::vector<Untied> compare_same(mpi::Comm& comm, plan::Binding& binding,
                                 const execute::SourceFiles& source,
                                 const plan::Visibility& visibility,
                                 const plan::PlanChoice& choice);

}  // namespace shardweld::app

// What becomes of an optimizer's states: each is bound as the weights are, and masters prove it.
#pragma once

#include "app/family/model.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// Adds the states that are asked for (--state) to a model whose weights are bound: they follow
/// their weights. `catalogue`: the checkpoint's, of which files, facts and states are needed, and
/// the weights where they are their own masters. Every weight that has a master gets it as a
/// replica, to which it is compared while tensors are moved. Error(not_found) where there are no
/// states; Error(unsupported) for states that are not fp32, and for forms without a place for them;
/// Error(mismatch) where not all parameters have the same ones.
void bind_states(HeldModel& model, const Job& job, catalogue::Catalogue catalogue);

}  // namespace shardweld::app

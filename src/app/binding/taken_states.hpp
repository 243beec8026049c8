// Which of a save's states are asked for, and what to say where there are none.
#pragma once

#include <vector>

#include "app/settings/job.hpp"
#include "catalogue/optimizer.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// Whether there are masters beside the weights.
bool has_masters(const catalogue::Catalogue& whole);

/// The states in the order in which they are written, masters first; they are taken out. fp32
/// weights are their own masters where the save has no others. Error(not_found) where moments are
/// asked for and there are none, naming what is there of an optimizer and was not read.
std::vector<catalogue::State> take_states(const Job& job, catalogue::Catalogue& whole);

/// Error(not_found) likewise, where a save holds no state at all.
[[noreturn]] void refuse_stateless(const Job& job);

}  // namespace shardweld::app

// Which ranks read, where not all may.
// Pure; knows which ranks see which files, nothing of targets.
#pragma once

#include <vector>

#include "catalogue/file.hpp"
#include "plan/choice.hpp"
#include "plan/visibility.hpp"

namespace shardweld::plan {

/// All ranks, or as many as PlanChoice::max_readers: by turns from every group with a view of its
/// own, spread evenly over the ranks of the group and so over its nodes. Error(usage) names a file
/// that some rank sees and no reader.
std::vector<int> choose_readers(const Visibility& visibility,
                                const std::vector<catalogue::File>& files,
                                const PlanChoice& choice);

}  // namespace shardweld::plan

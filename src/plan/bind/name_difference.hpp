// Why expected names are not among the stored ones, as far as the names tell.
// Knows how names of programs and encodings look, and prefixes; nothing of what is stored under
// them.
#pragma once

#include <set>
#include <span>
#include <string>

#include "catalogue/tensor.hpp"

namespace shardweld::plan {

struct NameDifference {
    std::string text;  ///< whose names they are, or a stored name and how it differs; "": nothing
    std::string hint;  ///< what to do about it; "": the names do not say
};

/// What the `stored` tensors that nothing takes tell of the `expected` names, which have '#' for
/// numbers.
NameDifference difference_of(const std::set<std::string>& expected,
                             std::span<const catalogue::Tensor> stored);

}  // namespace shardweld::plan

// Strides of row-major tensors.
#pragma once

#include <span>
#include <vector>

#include "index.hpp"

namespace shardweld {

/// Strides of a dense row-major tensor whose volume is known to fit.
std::vector<Index> dense_strides(std::span<const Index> shape);

}  // namespace shardweld

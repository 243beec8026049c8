// Stored tensors as a tree by the components of their names, rows that differ only in numbers
// folded. Knows names and columns; nothing of what tensors mean.
#pragma once

#include <string>
#include <vector>

#include "stored_rows.hpp"

namespace shardweld::app {

/// A line for each folded row and each part of the names that several share, with what lies below
/// it; "" where there are too many.
std::string tensor_tree(const std::vector<StoredRow>& rows);

}  // namespace shardweld::app

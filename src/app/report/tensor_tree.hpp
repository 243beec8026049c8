// Stored tensors as a tree by the components of their names, rows that differ only in numbers
// folded. Knows names and columns; nothing of what tensors mean.
#pragma once

#include <string>
#include <vector>

#include "stored_rows.hpp"

namespace shardweld::app {

/// Rows of stored tensors that are alike but for numbers in their names.
struct FoldedRow {
    std::vector<std::string> path;  ///< components of the name; a folded one is "{0..7}"
    std::size_t n_tensors = 0;
    StoredRow sum;  ///< dtype and shape of each; counts and bytes of all; the first one's name
};

/// Every row stands in exactly one folded row, and a folded row names exactly its rows: all
/// combinations of the numbers in its braces. In the order of their first rows. Empty where that
/// leaves more rows than anybody reads.
std::vector<FoldedRow> folded(const std::vector<StoredRow>& rows);

/// "0..7", "1,3,5", "0..2,8": ascending numbers.
std::string ranges_text(const std::vector<Index>& numbers);

/// A line for each folded row and each part of the names that several share, with what lies below
/// it; "" where there are too many.
std::string tensor_tree(const std::vector<StoredRow>& rows);

}  // namespace shardweld::app

// The lines of blocks: "NAME = LOGICAL layout <join> options", "NAME if cond", "without NAME..".
// Knows one line at a time.
#pragma once

#include <vector>

#include "declaration.hpp"
#include "scanner.hpp"

namespace shardweld::models {

/// Appends the edits that one line of a block, or the rest of a `hub` or `store` statement, means:
/// one for each of its alternatives (in a recipe the first: only one name is written). Joins are
/// for dialects only.
void parse_line(Scanner& in, bool is_dialect, std::vector<Edit>& out);

}  // namespace shardweld::models

// The known word that a mistyped one probably means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardweld::app {

/// "did you mean WORD?" with the word nearest to `typed`, or "" when none is near (more than a
/// third of its letters differ).
std::string suggestion(std::string_view typed, const std::vector<std::string>& known);

}  // namespace shardweld::app

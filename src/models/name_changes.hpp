// Names that begin otherwise, by `rename` rules: one way and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe.hpp"

namespace shardweld::models {

/// The name that the rule with the longest `from` gives it, whatever dialect the rule is for; the
/// name itself if none does.
std::string renamed_by(const std::vector<RenameRule>& rules, std::string_view name);

/// The name that the rule with the longest `to` was left with; only rules of the dialect ("": the
/// module tree's) with which names are written.
std::string renamed_back_by(const std::vector<RenameRule>& rules, std::string_view name,
                            std::string_view dialect);

}  // namespace shardweld::models

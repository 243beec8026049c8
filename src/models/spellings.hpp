// What else a tensor or a module of a family is called: on the hub, and in the trees of modules of
// loaders, old ones and new ones.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recipe.hpp"

namespace shardweld::models {

/// The names under which models of one family are in use.
class Spellings {
  public:
    explicit Spellings(const Recipe& recipe);

    /// The names that a name of the hub may be instead, by its components and by rules for
    /// beginnings; those of the tree of modules come last.
    [[nodiscard]] std::vector<std::string> others(const std::string& name) const;

  private:
    const Recipe& recipe_;
    /// "block_sparse_moe" and "mlp", where the tree of modules has one for the other in a tensor's
    /// name: loaders rename the component of any name.
    std::set<std::pair<std::string, std::string>> components_;
};

}  // namespace shardweld::models

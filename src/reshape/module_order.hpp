// The order in which a model of transformers registers its parameters, by which torch's optimizers
// number them. Checkpoints do not tell it: it is what the classes of transformers do.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace shardweld::reshape {

/// The order of one family's parameters.
class ModuleOrder {
  public:
    /// `family`: a recipe's name.
    explicit ModuleOrder(std::string family) : family_(std::move(family)) {}

    /// Whether the order was compared with the family's class.
    [[nodiscard]] bool is_known() const;
    /// Whether the first parameter is registered before the second, by their names in the module
    /// tree.
    bool operator()(std::string_view a, std::string_view b) const;

  private:
    [[nodiscard]] std::string_view children_of(std::string_view module) const;

    std::string family_;
};

}  // namespace shardweld::reshape

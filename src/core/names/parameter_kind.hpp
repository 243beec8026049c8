// Which of Megatron's parameter groups a parameter is in: its groups name no members, its rule
// does. Source: megatron-core 0.16.1 megatron/core/optimizer/__init__.py (_get_param_groups).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/parameter_group.hpp"

namespace shardweld {

/// What Megatron's groups are told apart by.
struct ParameterKind {
    bool is_of_experts = false;
    bool is_decoupled = false;  ///< embeddings and the head, with a rate of their own
    bool decays = true;         ///< neither a vector nor a bias
};

/// The kind that a group's settings tell, whose multipliers are numbers however they are spelled.
ParameterKind kind_of(const Settings& group);
/// The kind of a parameter, by its name in Megatron or in a module tree.
ParameterKind kind_of(std::string_view name, std::size_t n_dims);

/// The groups of that kind; where no group has one of its traits, that tells none apart. Several,
/// where groups differ in more than the rule knows.
std::vector<std::size_t> groups_of(const ParameterKind& kind,
                                   const std::vector<ParameterGroup>& groups);

/// Whether these are Megatron's.
bool are_of_megatron(const std::vector<ParameterGroup>& groups);

}  // namespace shardweld

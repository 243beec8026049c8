// Both ends of a model: embedding and head, by the names of its family or by those in use.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rule.hpp"

namespace shardweld::loaders {

inline constexpr std::string_view kHead = "head";  // logical names
inline constexpr std::string_view kEmbedding = "embed";

/// The family's name of a tensor, "" where there is none.
std::string name_of_logical(const Directory& directory, std::string_view logical);

/// Recipes of some composite models know the embedding, and let the rest pass.
bool is_family_whole(const Directory& directory);

/// Whether head and embedding are one; a family knows what config.json means where it says nothing.
std::optional<bool> is_tied(const Case& model);

/// The name by which the head is stored, "" where it is not.
std::string stored_head(const Case& model);

}  // namespace shardweld::loaders

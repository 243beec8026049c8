// Short tuples and lists of a pickle: shapes, meshes, placements.
// Bounded, as hostile files share one long list among many values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/formats/shared/pickle.hpp"

namespace shardweld::formats::fsdp {

inline constexpr std::size_t kLongestList = 32;

/// The elements of a tuple or list. Error(corrupt) naming `what` for anything else or a longer one.
std::span<const PickleValue* const> short_list(const PickleValue& value, const std::string& what);

/// As above, all non-negative numbers.
std::vector<Index> short_counts(const PickleValue& value, const std::string& what);

}  // namespace shardweld::formats::fsdp

// Short tuples and lists of a pickle: shapes, meshes, placements.
// Bounded, as hostile files share one long list among many values.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "formats/containers/pickle.hpp"

namespace shardweld::formats::fsdp {

inline constexpr std::size_t kLongestList = 32;

/// The elements of a tuple or list. Error(corrupt) naming `what` for anything else or a longer one.
std::span<const PickleValue* const> short_list(const PickleValue& value, std::string_view what);

/// As above, all non-negative numbers.
std::vector<Index> short_counts(const PickleValue& value, std::string_view what);
/// The same into `counts`, whose memory is used again.
void read_short_counts(const PickleValue& value, std::string_view what, std::vector<Index>& counts);

}  // namespace shardweld::formats::fsdp

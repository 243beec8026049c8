// Integer types and checked arithmetic on sizes that come from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardweld {

using Index = std::int64_t;   ///< elements, extents, strides
using Bytes = std::uint64_t;  ///< sizes and file offsets

using ByteView = std::span<const std::byte>;
using ByteSpan = std::span<std::byte>;  ///< that may be written
using ByteBuffer = std::vector<std::byte>;

inline constexpr Bytes kMiB = Bytes{1} << 20U;

/// a * b, a + b, a - b; throw Error(corrupt) naming `what` on overflow (or a negative Bytes
/// result).
Index checked_mul(Index a, Index b, std::string_view what);
Index checked_add(Index a, Index b, std::string_view what);
Bytes checked_mul_bytes(Bytes a, Bytes b, std::string_view what);
Bytes checked_add_bytes(Bytes a, Bytes b, std::string_view what);

/// Product of the extents of a shape (1 for a scalar). Throws Error(corrupt) on overflow or a
/// negative extent.
Index volume_of(std::span<const Index> shape, std::string_view what);

/// Whether the box of `sizes` at `offsets` lies in a tensor of `shape`. Sizes and extents are not
/// negative.
bool lies_inside(std::span<const Index> offsets, std::span<const Index> sizes,
                 std::span<const Index> shape);

/// A number that is known to be a size or a place in a list, or an enumerator's place.
template <typename Number>
constexpr std::size_t as_size(Number number) {
    return static_cast<std::size_t>(number);
}

/// Conversions that throw Error(corrupt) when the value does not fit.
Index to_index(Bytes value, std::string_view what);
Bytes to_bytes(Index value, std::string_view what);
int to_int(Index value, std::string_view what);
std::size_t to_size(Bytes value, std::string_view what);

}  // namespace shardweld

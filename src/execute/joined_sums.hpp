// What the sums of ranges tell of the record that they lie in, wherever they overlap.
// Pure; knows numbers only.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "shardweld/execute/record_sums.hpp"

namespace shardweld::execute {

/// Bytes [begin, end) of a record.
struct Stretch {
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const Stretch&, const Stretch&) = default;
};

/// Few bytes of a record of `size` bytes whose sums, beside the stated one, prove each range of
/// `known` and the whole: gaps between ranges, and what some of them share. In order.
std::vector<Stretch> missing(Bytes size, std::span<const RangeSum> known);

struct Joined {
    std::optional<std::uint32_t> crc32;  ///< of the whole, where the ranges tell it
    bool is_consistent = true;           ///< false: bytes that were read twice were not the same
};

Joined join(Bytes size, std::span<const RangeSum> known);

}  // namespace shardweld::execute

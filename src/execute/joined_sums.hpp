// What the sums of ranges, overlapping or not, say about the record in which they lie.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "record_sums.hpp"

namespace shardweld::execute {

/// Bytes [begin, end) of a record.
struct RecordStretch {
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const RecordStretch&, const RecordStretch&) = default;
};

/// Few bytes of a record of `size` bytes whose sums, beside the stated one, prove each range of
/// `known` and the whole: gaps between ranges, and what some of them share. In order.
std::vector<RecordStretch> missing(Bytes size, std::span<const RangeSum> known);

/// The checksum of a record that follows from those of its ranges.
struct JoinedSums {
    std::optional<std::uint32_t> crc32;  ///< of the whole, where the ranges tell it
    bool is_consistent = true;           ///< false: bytes that were read twice were not the same
};

JoinedSums join(Bytes size, std::span<const RangeSum> known);

}  // namespace shardweld::execute

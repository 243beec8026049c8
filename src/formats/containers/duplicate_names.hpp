// Texts that should all differ: names of a file's entries and tensors, hundreds of thousands of
// them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace shardweld::formats {

/// Positions of two equal texts.
struct Duplicate {
    std::size_t first = 0;
    std::size_t second = 0;  ///< behind `first`
};

/// The repetition that comes first in order; nullopt when all texts differ. Linear; for texts that
/// were made to hash alike, as sorting them.
std::optional<Duplicate> find_duplicate(std::span<const std::string_view> texts);

/// Error(corrupt) about "tensor NAME" where two of one file's tensors have one name.
void require_distinct(std::span<const std::string_view> tensors);

}  // namespace shardweld::formats

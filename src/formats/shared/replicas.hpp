// The pieces of one global tensor against each other: copies, gaps, overlaps.
// Knows the catalogue only.
#pragma once

#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "layout/cover.hpp"

namespace shardweld::formats {

/// Sorts pieces by their boxes, then by file, and numbers those of one box in different files: 0 is
/// the lowest file's. The same box twice in one file is no copy but an overlap.
void number_replicas(std::vector<catalogue::Piece>& pieces);

using layout::Cover;

struct CoverFault {
    Cover::Kind kind = Cover::Kind::exact;
    std::string text;        ///< where: "between [0, 0] and [4, 8]", "[4] at [0] and [2] at [3]"
    std::string first_box;   ///< of an overlap: "[4] at [0]"
    std::string second_box;  ///< of an overlap
    std::uint32_t first_file = 0;   ///< of an overlap
    std::uint32_t second_file = 0;  ///< of an overlap
};

/// Whether the pieces numbered 0 hold every element of the tensor once.
CoverFault find_cover_fault(const catalogue::Tensor& tensor);

}  // namespace shardweld::formats

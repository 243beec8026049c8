// What all outputs share: which tensors stand in which file, the files' names and their index.
#pragma once

#include <string_view>

#include "output.hpp"

namespace shardweld::outputs {

/// Files of at most `limit` tensor bytes (a larger tensor stands alone), called modelENDING or
/// model-00001-of-0000NENDING with an index, each with its tensors by element size descending,
/// then in their own order. Slots name files; headers, sizes and offsets are left to the format.
Placement pack(const std::vector<OutputTensor>& tensors, Bytes limit, std::string_view ending);

/// Puts a file's tensors one behind the other, from its size on, which becomes the end of the last.
void put_in_order(Placement& placement, PlacedFile& file, const std::vector<OutputTensor>& tensors);

}  // namespace shardweld::outputs

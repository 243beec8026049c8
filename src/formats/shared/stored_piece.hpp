// A tensor found in an opened file as a piece of a catalogue.
// Knows how the two correspond; nothing of names or files.
#pragma once

#include <span>

#include "catalogue/tensor.hpp"
#include "formats/containers/torch_file.hpp"

namespace shardweld::formats {

/// `stored` as the part of a larger tensor that begins at `lo` (elements, one for each axis; none:
/// all 0). The piece's file is left at 0. Error(unsupported) when it has too many axes.
catalogue::Piece piece_of(const StoredTensor& stored, std::span<const Index> lo = {});

}  // namespace shardweld::formats

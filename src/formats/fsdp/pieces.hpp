// From a rank's local tensor to pieces of the global one.
// Knows the catalogue and strided tensors; nothing of pickles.
#pragma once

#include <vector>

#include "catalogue/tensor.hpp"
#include "formats/containers/torch_file.hpp"

#include "owned.hpp"

namespace shardweld::formats::fsdp {

inline constexpr std::size_t kMostPieces = 1U << 20U;  ///< in one file

/// A piece for each box that the runs of all dimensions span; none when a dimension has no run.
/// `local` holds the elements of the runs in order: its shape is their lengths. Error(unsupported)
/// for more than kMostPieces.
std::vector<catalogue::Piece> pieces_of(const StoredTensor& local, const std::vector<Runs>& runs);

}  // namespace shardweld::formats::fsdp

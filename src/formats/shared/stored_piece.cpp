#include "stored_piece.hpp"

#include <string>

#include "catalogue/tensor.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

catalogue::Piece piece_of(const StoredTensor& stored, std::span<const Index> lo) {
    if (stored.shape.size() > layout::kMaxAxes) {
        throw Error(ErrorCode::unsupported,
                    "a tensor of " + std::to_string(stored.shape.size()) + " axes; at most " +
                        std::to_string(layout::kMaxAxes) + " are supported");
    }
    catalogue::Piece piece;
    piece.base = stored.storage_offset;
    piece.storage_bytes = stored.storage_bytes;
    piece.crc32 = stored.crc32;
    piece.patch.offset = stored.element_offset;
    for (std::size_t k = 0; k < stored.shape.size(); ++k) {
        piece.patch.axes.push_back({lo.empty() ? 0 : lo[k], stored.shape[k], stored.strides[k]});
    }
    return piece;
}

}  // namespace shardweld::formats

#include "pieces.hpp"

#include <string>

#include "catalogue/tensor.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

namespace {

catalogue::Piece empty_piece(const StoredTensor& tensor) {
    catalogue::Piece piece;
    piece.base = tensor.storage_offset;
    piece.storage_bytes = tensor.storage_bytes;
    piece.crc32 = tensor.crc32;
    piece.patch.offset = tensor.element_offset;
    return piece;
}

std::size_t number_of_boxes(const std::vector<Runs>& runs) {
    std::size_t number = 1;
    for (const Runs& of_dim : runs) {
        number *= of_dim.size();
        if (number > kMostPieces) {
            throw Error(ErrorCode::unsupported, "a rank's part of it falls into more than " +
                                                    std::to_string(kMostPieces) + " boxes");
        }
    }
    return number;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a loop for each level, and no more
std::vector<catalogue::Piece> pieces_of(const StoredTensor& local, const std::vector<Runs>& runs) {
    std::vector<catalogue::Piece> pieces(number_of_boxes(runs), empty_piece(local));
    std::size_t inner = pieces.size();  // boxes that share a run of this dimension in a row
    for (std::size_t k = 0; k < runs.size() && !pieces.empty(); ++k) {
        inner /= runs[k].size();
        for (std::size_t i = 0; i < pieces.size();) {
            Index before = 0;  // elements of earlier runs
            for (const layout::Range& run : runs[k]) {
                for (const std::size_t end = i + inner; i < end; ++i) {
                    pieces[i].patch.offset += before * local.strides[k];
                    pieces[i].patch.axes.push_back({run.lo, run.extent, local.strides[k]});
                }
                before += run.extent;
            }
        }
    }
    return pieces;
}

}  // namespace shardweld::formats::fsdp

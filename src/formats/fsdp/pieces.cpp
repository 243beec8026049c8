#include "pieces.hpp"

#include <string>

#include "shardweld/core/error.hpp"

namespace shardweld::formats::fsdp {

namespace {

catalogue::Piece empty_piece(const StoredTensor& tensor) {
    catalogue::Piece piece;
    piece.base = tensor.storage_offset;
    piece.storage_bytes = tensor.storage_bytes;
    piece.patch.offset = tensor.element_offset;
    return piece;
}

void check_number(const std::vector<Runs>& runs) {
    std::size_t number = 1;
    for (const Runs& of_dim : runs) {
        number *= of_dim.size();
        if (number > kMostPieces) {
            throw Error(ErrorCode::unsupported, "a rank's part of it falls into more than " +
                                                    std::to_string(kMostPieces) + " boxes");
        }
    }
}

}  // namespace

std::vector<catalogue::Piece> pieces_of(const StoredTensor& local, const std::vector<Runs>& runs) {
    check_number(runs);
    std::vector<catalogue::Piece> pieces = {empty_piece(local)};
    for (std::size_t k = 0; k < runs.size(); ++k) {
        std::vector<catalogue::Piece> longer;
        longer.reserve(pieces.size() * runs[k].size());
        for (const catalogue::Piece& piece : pieces) {
            Index before = 0;  // elements of earlier runs
            for (const layout::Range& run : runs[k]) {
                longer.push_back(piece);
                longer.back().patch.offset += before * local.strides[k];
                longer.back().patch.axes.push_back({run.lo, run.extent, local.strides[k]});
                before += run.extent;
            }
        }
        pieces = std::move(longer);
    }
    return pieces;
}

catalogue::Piece whole_piece(const StoredTensor& tensor) {
    catalogue::Piece piece = empty_piece(tensor);
    for (std::size_t k = 0; k < tensor.shape.size(); ++k) {
        piece.patch.axes.push_back({0, tensor.shape[k], tensor.strides[k]});
    }
    return piece;
}

}  // namespace shardweld::formats::fsdp

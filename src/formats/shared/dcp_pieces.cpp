#include "dcp_pieces.hpp"

#include <algorithm>
#include <utility>

#include "catalogue/catalogue.hpp"

#include "stored_piece.hpp"

namespace shardweld::formats {

namespace {

catalogue::Piece piece_of(const DcpChunk& chunk, const std::vector<StoredTensor>& views) {
    catalogue::Piece piece;
    if (!views.empty()) {
        piece = formats::piece_of(views.at(chunk.view), chunk.offsets);
    }
    piece.file = chunk.file;
    piece.base = chunk.offset;
    piece.storage_bytes = chunk.length;
    piece.located = false;
    if (views.empty()) {
        layout::Box box;
        for (std::size_t k = 0; k < chunk.sizes.size(); ++k) {
            box.push_back({chunk.offsets[k], chunk.sizes[k]});
        }
        piece.patch = layout::dense(box);
    }
    return piece;
}

}  // namespace

Bytes stored_bytes(const DcpTensor& tensor) {
    Bytes bytes = 0;
    for (const DcpChunk& chunk : tensor.chunks) {
        bytes = checked_add_bytes(bytes, chunk.length, "bytes of a tensor's chunks");
    }
    return bytes;
}

catalogue::Tensor tensor_of(const DcpTensor& stored, const std::vector<StoredTensor>& views) {
    catalogue::Tensor tensor;
    tensor.name = stored.name;
    tensor.stored_as = stored.name;
    tensor.dtype = stored.dtype;
    tensor.shape = stored.shape;
    tensor.pieces.reserve(stored.chunks.size());
    for (const DcpChunk& chunk : stored.chunks) {
        if (std::find(chunk.sizes.begin(), chunk.sizes.end(), 0) == chunk.sizes.end()) {
            tensor.pieces.push_back(piece_of(chunk, views));
        }
    }
    return tensor;
}

void keep_used_files(std::vector<std::string> files, catalogue::Catalogue& out,
                     const std::vector<Bytes>& ends) {
    std::vector<bool> used(files.size(), false);
    for (const auto& tensor : out.tensors) {
        for (const auto& piece : tensor.pieces) {
            used.at(piece.file) = true;
        }
    }
    std::vector<std::uint32_t> number(files.size(), 0);
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (used[i]) {
            number[i] = static_cast<std::uint32_t>(out.files.size());
            out.files.push_back({std::move(files[i]), ends.empty() ? 0 : ends.at(i)});
        }
    }
    for (auto& tensor : out.tensors) {
        for (auto& piece : tensor.pieces) {
            piece.file = number[piece.file];
        }
    }
}

void check_tiling(const catalogue::Tensor& tensor) {
    DcpTensor boxes;
    boxes.name = tensor.name;
    boxes.shape = tensor.shape;
    const std::size_t n_axes = layout::kMaxAxes;
    std::vector<Index> numbers;                          // offsets and sizes, piece by piece
    numbers.reserve(tensor.pieces.size() * 2 * n_axes);  // views stay valid
    for (const catalogue::Piece& piece : tensor.pieces) {
        if (piece.replica != 0) {
            continue;
        }
        const std::size_t begin = numbers.size();
        for (const layout::Axis& axis : piece.patch.axes) {
            numbers.push_back(axis.lo);
        }
        for (const layout::Axis& axis : piece.patch.axes) {
            numbers.push_back(axis.extent);
        }
        const auto all = std::span<const Index>(numbers).subspan(begin);
        boxes.chunks.push_back(
            {.offsets = all.first(all.size() / 2), .sizes = all.subspan(all.size() / 2)});
    }
    check_tiling(boxes);
}

}  // namespace shardweld::formats

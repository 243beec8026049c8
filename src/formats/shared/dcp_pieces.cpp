#include "dcp_pieces.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "file_scan.hpp"
#include "iteration_directories.hpp"

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
    const CoverFault fault = find_cover_fault(tensor);
    const std::string name = "tensor '" + printable(tensor.name) + "'";
    switch (fault.kind) {
        case Cover::Kind::exact:
            return;
        case Cover::Kind::gap:
            throw Error(ErrorCode::corrupt,
                        name + " of shape " + shape_text(tensor.shape) +
                            " is not covered by its chunks " + fault.text,
                        "the save left them out: take another one");
        case Cover::Kind::overlap:
            throw Error(ErrorCode::corrupt, name + ": chunks of one tensor overlap: the chunk of " +
                                                fault.first_box + " and the chunk of " +
                                                fault.second_box);
        case Cover::Kind::irregular:
            throw Error(ErrorCode::unsupported,
                        name +
                            ": its chunks do not form a grid or slabs, so shardweld cannot "
                            "check that they cover it once");
    }
}

namespace {

/// What is known of an item beside its bytes, by its place in the file.
using ItemPlace = std::pair<Bytes, std::uint64_t>;

std::uint64_t shape_of(const catalogue::Tensor& tensor, const catalogue::Piece& piece) {
    Fingerprint shape;
    shape.add(torch_name(tensor.dtype));
    for (const layout::Axis& axis : piece.patch.axes) {
        if (axis.extent != 1) {
            shape.add(static_cast<std::uint64_t>(axis.extent));
        }
    }
    return shape.value();
}

/// What tells each file from others once its items are opened.
std::vector<std::string> likenesses(const catalogue::Catalogue& catalogue) {
    std::vector<std::vector<ItemPlace>> items(catalogue.files.size());
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        for (const catalogue::Piece& piece : tensor.pieces) {
            items[piece.file].emplace_back(piece.base, shape_of(tensor, piece));
        }
    }
    std::vector<std::string> texts;
    for (std::size_t file = 0; file < items.size(); ++file) {
        std::sort(items[file].begin(), items[file].end());
        Fingerprint all;
        all.add(catalogue.files[file].size);
        for (const auto& [base, shape] : items[file]) {
            all.add(base);
            all.add(shape);
        }
        texts.push_back(std::to_string(all.value()));
    }
    return texts;
}

}  // namespace

void add_save_name(const std::string& checkpoint_id, const std::string& index,
                   catalogue::Catalogue& out) {
    if (const auto iteration = iteration_of(checkpoint_id)) {
        out.statements.push_back({index,
                                  "the name of the directory that was saved to",
                                  {},
                                  {{"iteration", std::to_string(*iteration)}}});
    }
}

void add_likenesses(const std::string& index, catalogue::Catalogue& out) {
    const auto alike = likenesses(out);
    for (std::size_t file = 0; file < out.files.size(); ++file) {
        out.statements.push_back({out.files[file].path,
                                  "its pieces, as .metadata lists them",
                                  {},
                                  {{"index", index}},
                                  true,
                                  alike[file]});
    }
}

}  // namespace shardweld::formats

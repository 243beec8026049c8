#include "torch_dist_index.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/shared/dcp_metadata.hpp"

#include "../directory.hpp"
#include "dist_state.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;

Bytes stored_bytes(const DcpTensor& tensor) {
    Bytes bytes = 0;
    for (const DcpChunk& chunk : tensor.chunks) {
        bytes = checked_add_bytes(bytes, chunk.length, "bytes left aside");
    }
    return bytes;
}

catalogue::Piece piece_of(const DcpChunk& chunk) {
    catalogue::Piece piece;
    piece.file = chunk.file;
    piece.base = chunk.offset;
    piece.storage_bytes = chunk.length;
    piece.located = false;
    layout::Box box;
    for (std::size_t k = 0; k < chunk.sizes.size(); ++k) {
        box.push_back({chunk.offsets[k], chunk.sizes[k]});
    }
    piece.patch = layout::dense(box);
    return piece;
}

catalogue::Tensor tensor_of(const DcpTensor& stored) {
    catalogue::Tensor tensor;
    tensor.name = model_key(stored.name);
    tensor.dtype = stored.dtype;
    tensor.shape = stored.shape;
    for (const DcpChunk& chunk : stored.chunks) {
        if (std::find(chunk.sizes.begin(), chunk.sizes.end(), 0) == chunk.sizes.end()) {
            tensor.pieces.push_back(piece_of(chunk));
        }
    }
    return tensor;
}

// Keeps the files that pieces lie in and renumbers the pieces' files accordingly.
void keep_used_files(std::vector<std::string> files, Catalogue& out) {
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
            out.files.push_back({std::move(files[i]), 0});
        }
    }
    for (auto& tensor : out.tensors) {
        for (auto& piece : tensor.pieces) {
            piece.file = number[piece.file];
        }
    }
}

void require_distinct(const std::vector<catalogue::Tensor>& tensors) {
    for (std::size_t i = 1; i < tensors.size(); ++i) {
        if (tensors[i].name == tensors[i - 1].name) {
            throw Error(ErrorCode::corrupt,
                        "two keys name tensor " + printable(tensors[i].name) +
                            " when the prefixes model. and module. are removed");
        }
    }
}

}  // namespace

std::string_view model_key(std::string_view key) {
    for (bool again = true; again;) {
        again = false;
        for (const std::string_view wrapper : {"model.", "module."}) {
            if (key.starts_with(wrapper)) {
                key.remove_prefix(wrapper.size());
                again = true;
            }
        }
    }
    return key;
}

Catalogue read_index(const Location& location) {
    auto metadata = DcpMetadata::read(location.directory / ".metadata");
    if (metadata.has_transforms) {
        throw Error(ErrorCode::unsupported,
                    "the shards are compressed; save without compression (transforms)");
    }
    Catalogue out;
    IgnoredRows ignored;
    for (const DcpTensor& tensor : metadata.tensors) {
        if (const auto row = aside(tensor.name)) {
            ignored.add(*row, 1, stored_bytes(tensor));
        } else {
            out.tensors.push_back(tensor_of(tensor));
        }
    }
    for (const DcpObject& object : metadata.objects) {
        const auto row = aside(object.name);
        const std::string name = object.name.substr(0, object.name.find("/shard_"));
        ignored.add(row ? *row : std::pair(printable(name), std::string("not a tensor")), 1,
                    object.length);
    }
    std::sort(out.tensors.begin(), out.tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    require_distinct(out.tensors);
    keep_used_files(std::move(metadata.files), out);
    out.ignored = ignored.take();
    return out;
}

}  // namespace shardweld::formats::megatron

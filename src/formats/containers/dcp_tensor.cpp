// Do the chunks of a tensor cover it exactly once?
#include "dcp_tensor.hpp"

#include <string>
#include <vector>

#include "core/text.hpp"
#include "layout/cover.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

using layout::Cover;

namespace {

std::string chunk_text(const DcpChunk& chunk) {
    return "the chunk of " + shape_text(chunk.sizes) + " at " + shape_text(chunk.offsets);
}

}  // namespace

void check_tiling(const DcpTensor& tensor) {
    std::vector<layout::CoverBox> boxes;
    boxes.reserve(tensor.chunks.size());
    for (const DcpChunk& chunk : tensor.chunks) {
        boxes.push_back({chunk.offsets, chunk.sizes});
    }
    const Cover cover = layout::check_cover(tensor.shape, boxes);
    const std::string name = "tensor '" + printable(tensor.name) + "'";
    switch (cover.kind) {
        case Cover::Kind::exact:
            return;
        case Cover::Kind::gap:
            throw Error(ErrorCode::corrupt,
                        name + " of shape " + shape_text(tensor.shape) +
                            " is not covered by its chunks between " + shape_text(cover.lo) +
                            " and " + shape_text(cover.hi),
                        "the save left them out: take another one");
        case Cover::Kind::overlap:
            throw Error(ErrorCode::corrupt, name + ": chunks of one tensor overlap: " +
                                                chunk_text(tensor.chunks[cover.first]) + " and " +
                                                chunk_text(tensor.chunks[cover.second]));
        case Cover::Kind::irregular:
            throw Error(ErrorCode::unsupported,
                        name +
                            ": its chunks do not form a grid or slabs, so shardweld cannot "
                            "check that they cover it once");
    }
}

}  // namespace shardweld::formats

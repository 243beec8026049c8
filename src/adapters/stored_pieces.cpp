#include "stored_pieces.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::adapters {

namespace {

using layout::Loop;
using layout::Patch;

// Heads of all layers of a large model are some thousands.
constexpr std::size_t kMostPieces = 1U << 16U;
constexpr const char* kNoBoxes = "its pieces are no boxes";

std::vector<Index> strides_of(const std::vector<Index>& shape) {
    std::vector<Index> strides(shape.size(), 1);
    for (std::size_t k = shape.size(); k-- > 1;) {
        strides[k - 1] = checked_mul(strides[k], shape[k], "a tensor's shape");
    }
    return strides;
}

/// The axis along which a loop runs: the outermost whose stride divides the loop's.
std::size_t axis_of(const Loop& loop, const std::vector<Index>& strides) {
    std::size_t k = 0;
    while (k + 1 < strides.size() && strides[k] > loop.dst_stride) {
        ++k;
    }
    return k;
}

/// Cuts loops that run over the end of an axis: "6x1" in rows of 3 is "2x3 3x1".
std::vector<Loop> cut_at_axes(const layout::Copy& copy, const std::vector<Index>& strides) {
    std::vector<Loop> open(copy.loops.begin(), copy.loops.end());
    std::vector<Loop> cut;
    while (!open.empty()) {
        Loop loop = open.back();
        open.pop_back();
        const std::size_t k = axis_of(loop, strides);
        const Index row = k == 0 ? 0 : strides[k - 1];
        if (k > 0 && loop.extent * loop.dst_stride > row) {
            const Index inner = row / loop.dst_stride;
            if (inner * loop.dst_stride != row || loop.extent % inner != 0) {
                throw Error(ErrorCode::unsupported, kNoBoxes);
            }
            open.push_back({loop.extent / inner, loop.src_stride * inner, row});
            loop.extent = inner;
        }
        cut.push_back(loop);
    }
    return cut;
}

/// The boxes of a copy in a tensor of these strides. Where several loops run along an axis, the
/// innermost is the box's and the others make boxes of their own.
std::vector<Patch> boxes_of(const layout::Copy& copy, const std::vector<Index>& strides) {
    Patch box;
    box.offset = copy.src_offset;
    Index rest = copy.dst_offset;
    for (const Index stride : strides) {
        box.axes.push_back({rest / stride, 1, 0});
        rest %= stride;
    }
    std::vector<Patch> boxes{box};
    std::vector<Loop> loops = cut_at_axes(copy, strides);
    std::sort(loops.begin(), loops.end(),
              [](const Loop& a, const Loop& b) { return a.dst_stride < b.dst_stride; });
    for (const Loop& loop : loops) {
        const std::size_t k = axis_of(loop, strides);
        const Index last =
            boxes.back().axes[k].lo + (loop.extent - 1) * (loop.dst_stride / strides[k]);
        if (loop.dst_stride % strides[k] != 0 || (k > 0 && last >= strides[k - 1] / strides[k])) {
            throw Error(ErrorCode::unsupported, kNoBoxes);
        }
        if (loop.dst_stride == strides[k]) {
            for (Patch& patch : boxes) {
                patch.axes[k].extent = loop.extent;
                patch.axes[k].stride = loop.src_stride;
            }
            continue;
        }
        const std::vector<Patch> once = std::move(boxes);
        boxes.clear();
        if (once.size() * static_cast<std::size_t>(loop.extent) > kMostPieces) {
            throw Error(ErrorCode::unsupported, "it lies in too many pieces");
        }
        for (Index i = 0; i < loop.extent; ++i) {
            for (Patch patch : once) {
                patch.offset += i * loop.src_stride;
                patch.axes[k].lo += i * (loop.dst_stride / strides[k]);
                boxes.push_back(patch);
            }
        }
    }
    return boxes;
}

void add_pieces(const plan::Target& target, const plan::Operand& operand, std::uint32_t replica,
                catalogue::Tensor& tensor) {
    for (Patch& patch : boxes_of(operand.copy, strides_of(target.shape))) {
        catalogue::Piece piece;
        piece.file = operand.file;
        piece.base = operand.base;
        piece.replica = replica;
        const layout::Range span = layout::address_span(patch);
        piece.storage_bytes =
            checked_mul_bytes(to_bytes(checked_add(span.lo, span.extent, "a piece"), "a piece"),
                              size_of(target.stored), "a piece");
        piece.patch = std::move(patch);
        tensor.pieces.push_back(std::move(piece));
    }
}

}  // namespace

catalogue::Tensor stored_as(const plan::Target& target, std::string name) {
    if (target.add != 0) {
        throw Error(ErrorCode::unsupported,
                    target.name + " is stored less " + std::to_string(target.add) +
                        ", which is not read beside an adapter",
                    "merge the adapter into the model with the framework that trained it");
    }
    catalogue::Tensor tensor;
    tensor.name = std::move(name);
    tensor.dtype = target.stored;
    tensor.shape = target.shape;
    try {
        for (const plan::Operand& operand : target.operands) {
            add_pieces(target, operand, 0, tensor);
        }
        std::uint32_t replica = 0;
        for (const plan::Operand& operand : target.replicas) {
            add_pieces(target, operand, ++replica, tensor);
        }
    } catch (Error& error) {
        error.add_context("tensor " + printable(target.name));
        throw;
    }
    return tensor;
}

}  // namespace shardweld::adapters

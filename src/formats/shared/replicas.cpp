#include "replicas.hpp"

#include <algorithm>

#include "shardweld/core/text.hpp"

namespace shardweld::formats {

namespace {

using catalogue::Piece;

// Order of boxes: by begin, then by extent; pieces of one tensor have the same axes.
int compare(const Piece& a, const Piece& b) {
    for (std::size_t k = 0; k < a.patch.axes.size(); ++k) {
        const layout::Axis& x = a.patch.axes[k];
        const layout::Axis& y = b.patch.axes[k];
        if (x.lo != y.lo) {
            return x.lo < y.lo ? -1 : 1;
        }
        if (x.extent != y.extent) {
            return x.extent < y.extent ? -1 : 1;
        }
    }
    return 0;
}

std::string box_text(const CoverBox& box) {
    return shape_text(box.sizes) + " at " + shape_text(box.offsets);
}

}  // namespace

void number_replicas(std::vector<Piece>& pieces) {
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return compare(a, b) < 0; });
    for (std::size_t i = 1; i < pieces.size(); ++i) {
        pieces[i].replica = compare(pieces[i - 1], pieces[i]) == 0 ? pieces[i - 1].replica + 1 : 0;
    }
}

CoverFault find_cover_fault(const catalogue::Tensor& tensor) {
    const std::size_t n_axes = tensor.shape.size();
    std::vector<const Piece*> primary;
    for (const Piece& piece : tensor.pieces) {
        if (piece.replica == 0) {
            primary.push_back(&piece);
        }
    }
    std::vector<Index> numbers;  // offsets and sizes of all boxes
    numbers.reserve(primary.size() * 2 * n_axes);
    for (const Piece* const piece : primary) {
        for (const layout::Axis& axis : piece->patch.axes) {
            numbers.push_back(axis.lo);
        }
        for (const layout::Axis& axis : piece->patch.axes) {
            numbers.push_back(axis.extent);
        }
    }
    std::vector<CoverBox> boxes;
    const std::span<const Index> all(numbers);
    for (std::size_t i = 0; i < primary.size(); ++i) {
        boxes.push_back(
            {all.subspan(2 * i * n_axes, n_axes), all.subspan((2 * i + 1) * n_axes, n_axes)});
    }
    const Cover cover = check_cover(tensor.shape, boxes);
    CoverFault fault;
    fault.kind = cover.kind;
    if (cover.kind == Cover::Kind::gap) {
        fault.text = "between " + shape_text(cover.lo) + " and " + shape_text(cover.hi);
    } else if (cover.kind == Cover::Kind::overlap) {
        fault.text = box_text(boxes[cover.first]) + " and " + box_text(boxes[cover.second]);
        fault.first_file = primary[cover.first]->file;
        fault.second_file = primary[cover.second]->file;
    }
    return fault;
}

}  // namespace shardweld::formats

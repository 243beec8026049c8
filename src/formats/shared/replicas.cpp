#include "replicas.hpp"

#include <algorithm>

#include "catalogue/tensor.hpp"
#include "core/text.hpp"

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

std::string box_text(const Piece& piece) {
    std::vector<Index> offsets;
    std::vector<Index> sizes;
    for (const layout::Axis& axis : piece.patch.axes) {
        offsets.push_back(axis.lo);
        sizes.push_back(axis.extent);
    }
    return shape_text(sizes) + " at " + shape_text(offsets);
}

}  // namespace

void number_replicas(std::vector<Piece>& pieces) {
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        const int order = compare(a, b);
        return order < 0 || (order == 0 && a.file < b.file);
    });
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const bool is_copy =
            i > 0 && compare(pieces[i - 1], pieces[i]) == 0 && pieces[i - 1].file != pieces[i].file;
        pieces[i].replica = is_copy ? pieces[i - 1].replica + 1 : 0;
    }
}

CoverFault find_cover_fault(const catalogue::Tensor& tensor) {
    std::vector<const Piece*> primary;
    std::vector<const layout::Patch*> patches;
    for (const Piece& piece : tensor.pieces) {
        if (piece.replica == 0) {
            primary.push_back(&piece);
            patches.push_back(&piece.patch);
        }
    }
    const Cover cover = patches.empty()
                            ? layout::check_cover(tensor.shape, {})
                            : layout::check_cover(layout::dense_shape(tensor.shape), patches);
    CoverFault fault;
    fault.kind = cover.kind;
    if (cover.kind == Cover::Kind::gap) {
        fault.text = "between " + shape_text(cover.lo) + " and " + shape_text(cover.hi);
    } else if (cover.kind == Cover::Kind::overlap) {
        fault.first_box = box_text(*primary[cover.first]);
        fault.second_box = box_text(*primary[cover.second]);
        fault.text = fault.first_box + " and " + fault.second_box;
        fault.first_file = primary[cover.first]->file;
        fault.second_file = primary[cover.second]->file;
    }
    return fault;
}

}  // namespace shardweld::formats

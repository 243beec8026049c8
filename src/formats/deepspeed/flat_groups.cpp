#include "flat_groups.hpp"

#include <algorithm>

#include "core/lists.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// What a box and another one, both of the local tensor, have in common, as ranges of the latter's
/// axes; nullopt when nothing.
std::optional<layout::Box> meet(const LocalBox& box, const layout::Box& other) {
    layout::Box common;
    for (const std::size_t k : indices(other)) {
        common.push_back(layout::meet({box.local[k], box.extent[k]}, other[k]));
        if (common.back().extent <= 0) {
            return std::nullopt;
        }
    }
    return common;
}

// `patch`: over the local tensor's axes, and as large as what is common.
void add_piece(const Piece& source, layout::Patch patch, const LocalBox& box, std::uint32_t copy,
               std::vector<Piece>& pieces) {
    Piece piece = source;
    for (const std::size_t k : indices(patch.axes)) {
        patch.axes[k].lo += box.global[k] - box.local[k];
    }
    piece.patch = patch;
    piece.replica = box.replica + copy;
    pieces.push_back(piece);
}

}  // namespace

void FlatLine::append(const Shard* shard, Index length, Index rank) {
    ends_.push_back(checked_add(this->length(), length, "a flat group"));
    shards_.push_back(shard);
    ranks_.push_back(rank);
}

void FlatLine::find(Index at, Index count, Index begin, std::vector<FlatRun>& runs) const {
    auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
    for (; count > 0; ++part) {
        const Index first = part == 0 ? 0 : ends_[part - 1];
        const Index taken = std::min(count, ends_[part] - at);
        if (taken > 0) {
            runs.push_back({begin, begin + taken, shards_[part], at - first, ranks_[part]});
        }
        at += taken;
        begin += taken;
        count -= taken;
    }
}

void add_pieces(const FlatRun& run, std::span<const Index> shape, std::span<const LocalBox> boxes,
                std::uint32_t copy, std::vector<Piece>& pieces) {
    const Piece& source = run.shard->piece;
    const layout::Patch dense = layout::dense_shape(shape);
    for (const layout::RangeBox& range : layout::boxes_of_range(run.begin, run.end, shape)) {
        for (const LocalBox& box : boxes) {
            if (const auto common = meet(box, range.box)) {
                layout::Patch patch = *layout::clip(dense, *common);
                patch.offset += source.patch.offset + run.at - run.begin;
                add_piece(source, patch, box, copy, pieces);
            }
        }
    }
}

void add_pieces(const Piece& whole, std::span<const LocalBox> boxes, std::uint32_t copy,
                std::vector<Piece>& pieces) {
    for (const LocalBox& box : boxes) {
        layout::Box local;
        for (const std::size_t k : indices(box.local)) {
            local.push_back({box.local[k], box.extent[k]});
        }
        if (const auto patch = layout::clip(whole.patch, local)) {
            add_piece(whole, *patch, box, copy, pieces);
        }
    }
}

std::vector<Piece> pieces_of_range(const Piece& first, std::span<const Index> shape, Index begin,
                                   Index end) {
    const layout::Box whole = layout::whole_box(shape);
    std::vector<Piece> pieces;
    for (const layout::Patch& patch : layout::flat(whole, begin, end, first.patch.offset)) {
        pieces.push_back(first);
        pieces.back().patch = patch;
    }
    return pieces;
}

}  // namespace shardweld::formats::deepspeed

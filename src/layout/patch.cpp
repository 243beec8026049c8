#include "patch.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/lists.hpp"
#include "shardweld/error.hpp"

#include "range_boxes.hpp"

namespace shardweld::layout {

namespace {

void require_range(Index begin, Index end, std::span<const Index> shape) {
    const Index volume = volume_of(shape, "the shape of a range");
    if (begin < 0 || end > volume) {
        throw Error(ErrorCode::mismatch, "the range [" + std::to_string(begin) + ", " +
                                             std::to_string(end) + ") lies outside its " +
                                             std::to_string(volume) + " elements");
    }
}

}  // namespace

Index Patch::volume() const {
    Index volume = 1;
    for (const Axis& axis : axes) {
        volume *= axis.extent;
    }
    return volume;
}

Box box_of(const Patch& p) {
    Box box;
    for (const Axis& axis : p.axes) {
        box.push_back(axis.range());
    }
    return box;
}

Patch dense(const Box& box, Index offset) {
    Patch p;
    p.offset = offset;
    p.axes.resize(box.size());
    Index stride = 1;
    for (std::size_t k = box.size(); k > 0; --k) {
        const Range& range = box[k - 1];
        p.axes[k - 1] = {range.lo, range.extent, stride};
        stride = checked_mul(stride, range.extent, "the volume of a box");
    }
    return p;
}

Box whole_box(std::span<const Index> shape) {
    Box box;
    for (const Index extent : shape) {
        box.push_back({0, extent});
    }
    return box;
}

Patch dense_shape(std::span<const Index> shape, Index offset) {
    return dense(whole_box(shape), offset);
}

std::optional<Patch> clip(const Patch& p, const Box& box) {
    if (box.size() != p.axes.size()) {
        throw Error(ErrorCode::internal, "a patch of " + std::to_string(p.axes.size()) +
                                             " axes is clipped to a box of " +
                                             std::to_string(box.size()));
    }
    Patch clipped = p;
    for (const std::size_t k : indices(box)) {
        const Axis& axis = p.axes[k];
        const Range both = meet(axis.range(), box[k]);
        if (both.extent <= 0) {
            return std::nullopt;
        }
        clipped.offset += (both.lo - axis.lo) * axis.stride;
        clipped.axes[k] = {both.lo, both.extent, axis.stride};
    }
    return clipped;
}

std::vector<RangeBox> boxes_of_range(Index begin, Index end, std::span<const Index> shape) {
    if (begin >= end) {
        return {};
    }
    require_range(begin, end, shape);
    if (shape.empty()) {
        return {RangeBox{}};
    }
    std::vector<RangeBox> out;
    for_each_range_box(begin, end, shape, [&](const Box& box, Index first) {
        out.push_back({box, first});
    });
    return out;
}

std::vector<Patch> flat(const Box& box, Index begin, Index end, Index offset) {
    InlineVector<Index, kMaxAxes> shape;
    for (const Range& range : box) {
        shape.push_back(range.extent);
    }
    const Patch whole = dense(box);
    std::vector<Patch> out;
    for (const RangeBox& part : boxes_of_range(begin, end, shape.span())) {
        Patch p = whole;
        p.offset = offset + part.begin - begin;
        for (const std::size_t k : indices(box)) {
            p.axes[k].lo += part.box[k].lo;
            p.axes[k].extent = part.box[k].extent;
        }
        out.push_back(p);
    }
    return out;
}

Patch embed(const Patch& p, std::size_t k, Index at) {
    if (k > p.axes.size()) {
        throw Error(ErrorCode::internal, "new axis " + std::to_string(k) + " of a patch with " +
                                             std::to_string(p.axes.size()) + " axes");
    }
    Patch embedded = p;
    embedded.axes.push_back({});
    std::copy_backward(p.axes.begin() + k, p.axes.end(), embedded.axes.end());
    embedded.axes[k] = {at, 1, 0};
    return embedded;
}

std::string to_text(const Patch& p) {
    std::string text = std::to_string(p.offset);
    for (const std::size_t k : indices(p.axes)) {
        const Axis& axis = p.axes[k];
        text += (k == 0 ? " + [" : " [") + std::to_string(axis.lo) + "," +
                std::to_string(axis.range().end()) + ")*" + std::to_string(axis.stride);
    }
    return text;
}

Range address_span(const Patch& p) {
    Index span = 1;
    for (const Axis& axis : p.axes) {
        if (axis.stride < 0 || axis.extent < 1) {
            throw Error(ErrorCode::internal, "no address span: the patch " + to_text(p) +
                                                 " is empty or has a negative stride");
        }
        span = checked_add(span,
                           checked_mul(axis.extent - 1, axis.stride, "the address span of a patch"),
                           "the address span of a patch");
    }
    return {p.offset, span};
}

}  // namespace shardweld::layout

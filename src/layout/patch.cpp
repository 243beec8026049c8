#include "patch.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/index.hpp"
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

void require_axis(const Patch& p, std::size_t k) {
    if (k >= p.axes.size()) {
        throw Error(ErrorCode::internal, "axis " + std::to_string(k) + " of a patch with " +
                                             std::to_string(p.axes.size()) + " axes");
    }
}

/// p with `count` axes yet to be filled in instead of axis k.
Patch with_room_at(const Patch& p, std::size_t k, std::size_t count) {
    Patch out{p.offset, {}};
    for (std::size_t i = 0; i < k; ++i) {
        out.axes.push_back(p.axes[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
        out.axes.push_back({});
    }
    for (std::size_t i = k + 1; i < p.axes.size(); ++i) {
        out.axes.push_back(p.axes[i]);
    }
    return out;
}

}  // namespace

Index Patch::volume() const {
    Index volume = 1;
    for (const Axis& axis : axes) {
        volume *= axis.extent;
    }
    return volume;
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

Patch dense_shape(std::span<const Index> shape, Index offset) {
    Box box;
    for (const Index extent : shape) {
        box.push_back({0, extent});
    }
    return dense(box, offset);
}

std::optional<Patch> clip_axis(const Patch& p, std::size_t k, Range range) {
    require_axis(p, k);
    const Axis& axis = p.axes[k];
    const Index lo = std::max(axis.lo, range.lo);
    const Index hi = std::min(axis.lo + axis.extent, range.lo + range.extent);
    if (hi <= lo) {
        return std::nullopt;
    }
    Patch clipped = p;
    clipped.offset += (lo - axis.lo) * axis.stride;
    clipped.axes[k] = {lo, hi - lo, axis.stride};
    return clipped;
}

std::optional<Patch> clip(const Patch& p, const Box& box) {
    if (box.size() != p.axes.size()) {
        throw Error(ErrorCode::internal, "a patch of " + std::to_string(p.axes.size()) +
                                             " axes is clipped to a box of " +
                                             std::to_string(box.size()));
    }
    Patch clipped = p;
    for (std::size_t k = 0; k < box.size(); ++k) {
        const Axis& axis = p.axes[k];
        const Index lo = std::max(axis.lo, box[k].lo);
        const Index hi = std::min(axis.lo + axis.extent, box[k].lo + box[k].extent);
        if (hi <= lo) {
            return std::nullopt;
        }
        clipped.offset += (lo - axis.lo) * axis.stride;
        clipped.axes[k] = {lo, hi - lo, axis.stride};
    }
    return clipped;
}

std::vector<Patch> refine(const Patch& p, std::size_t k, std::span<const Index> factors) {
    require_axis(p, k);
    const Axis axis = p.axes[k];
    require_range(axis.lo, axis.lo + axis.extent, factors);
    Patch refined = with_room_at(p, k, factors.size());
    std::vector<Patch> out;
    if (factors.empty()) {  // the empty product has one element
        out.assign(axis.extent > 0 ? 1 : 0, refined);
        return out;
    }
    const auto emit = [&](const Box& box, Index first) {
        refined.offset = p.offset + (first - axis.lo) * axis.stride;
        Index stride = axis.stride;
        for (std::size_t i = factors.size(); i > 0; --i) {
            refined.axes[k + i - 1] = {box[i - 1].lo, box[i - 1].extent, stride};
            stride = stride_product(stride, factors[i - 1]);
        }
        out.push_back(refined);
    };
    for_each_range_box(axis.lo, axis.lo + axis.extent, factors, emit);
    return out;
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
        for (std::size_t k = 0; k < box.size(); ++k) {
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

Patch shift(const Patch& p, Index by) {
    Patch shifted = p;
    shifted.offset += by;
    return shifted;
}

std::string to_text(const Patch& p) {
    std::string text = std::to_string(p.offset);
    for (std::size_t k = 0; k < p.axes.size(); ++k) {
        const Axis& axis = p.axes[k];
        text += (k == 0 ? " + [" : " [") + std::to_string(axis.lo) + "," +
                std::to_string(axis.lo + axis.extent) + ")*" + std::to_string(axis.stride);
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

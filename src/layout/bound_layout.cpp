// Giving a layout its extents: from symbols, and at most one from the stored shape.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "expression.hpp"
#include "segments.hpp"

namespace shardweld::layout {

namespace {

constexpr const char* kStar = "*";

std::string quoted(const Layout& layout) {
    return "layout \"" + printable(layout.text) + "\"";
}

}  // namespace

/// The extents of a layout's axes, in the order of its text.
class Extents {
  public:
    Extents(const Layout& layout, const ExtentOf& extent_of) : layout_(layout) {
        for (const Dim& dim : layout.dims) {
            collect(dim, extent_of);
        }
    }

    [[nodiscard]] Index of(const std::string& name) const {
        if (name == kStar) {
            return star_;
        }
        const auto is_it = [&](const auto& known) { return known.first == name; };
        return std::ranges::find_if(known_, is_it)->second;
    }

    [[nodiscard]] bool has_star() const { return has_star_; }
    void set_star(Index extent) { star_ = extent; }

    /// Extent of a product.
    [[nodiscard]] Index of(const std::vector<LayoutItem>& items) const {
        Index product = 1;
        for (const LayoutItem& item : items) {
            product = checked_mul(product, of(item), "an extent of a layout");
        }
        return product;
    }

    [[nodiscard]] Index of(const LayoutItem& item) const {
        if (item.segments.empty()) {
            return of(item.name);
        }
        Index sum = 0;
        for (const Segment& segment : item.segments) {
            sum = checked_add(sum, of(segment.items), "an extent of a layout");
        }
        return sum;
    }

    /// " with g=4, p=2" for messages.
    [[nodiscard]] std::string text() const {
        std::string text;
        for (const auto& [name, extent] : known_) {
            text += (text.empty() ? " with " : ", ") + name + "=" + std::to_string(extent);
        }
        return text;
    }

  private:
    void collect(const std::vector<LayoutItem>& items, const ExtentOf& extent_of) {
        for (const LayoutItem& item : items) {
            for (const Segment& segment : item.segments) {
                collect(segment.items, extent_of);
            }
            if (item.segments.empty()) {
                add(item.name, extent_of);
            }
        }
    }

    void add(const std::string& name, const ExtentOf& extent_of) {
        if (name == kStar) {
            has_star_ = true;
            return;
        }
        const auto is_it = [&](const auto& known) { return known.first == name; };
        if (std::ranges::any_of(known_, is_it)) {
            return;
        }
        Index extent = 0;
        try {
            extent = extent_of(name);
        } catch (Error& error) {
            error.add_context(quoted(layout_));
            throw;
        }
        if (extent < 0) {
            throw Error(ErrorCode::mismatch, "axis '" + name + "' of " + quoted(layout_) +
                                                 " has extent " + std::to_string(extent) +
                                                 "; extents are 0 or more");
        }
        known_.emplace_back(name, extent);
    }

    const Layout& layout_;
    std::vector<std::pair<std::string, Index>> known_;
    bool has_star_ = false;
    Index star_ = 0;
};

namespace {

using Stored = std::optional<std::span<const Index>>;

[[noreturn]] void refuse(const Layout& layout, const Extents& extents, const Stored& stored,
                         const std::string& why) {
    throw Error(ErrorCode::mismatch, "stored shape " + shape_text(*stored) + " does not fit " +
                                         quoted(layout) + extents.text() + ": " + why);
}

std::string dimension_is(std::size_t k, Index found) {
    return "dimension " + std::to_string(k) + " is " + std::to_string(found) + ", expected ";
}

/// Solves '*' from the one dimension it belongs to: its extent there is base + slope * star.
void solve_star(const Layout& layout, const Stored& stored, Extents& extents) {
    for (const std::size_t k : indices(layout.dims)) {
        extents.set_star(0);
        const Index base = extents.of(layout.dims[k]);
        extents.set_star(1);
        const Index slope = extents.of(layout.dims[k]) - base;
        if (slope == 0) {
            continue;
        }
        const Index found = (*stored)[k];
        if (found < base) {
            refuse(layout, extents, stored,
                   dimension_is(k, found) + "at least " + std::to_string(base));
        }
        if ((found - base) % slope != 0) {
            refuse(
                layout, extents, stored,
                dimension_is(k, found) +
                    (base == 0 ? "a multiple of " : std::to_string(base) + " plus a multiple of ") +
                    std::to_string(slope));
        }
        extents.set_star((found - base) / slope);
        return;
    }
    extents.set_star(0);  // every product around '*' is empty, so its extent does not matter
}

}  // namespace

/// Writes a layout's dims as nodes.
class BoundLayout::Builder {
  public:
    Builder(const Extents& extents, BoundLayout& bound) : extents_(extents), bound_(bound) {}

    void add_dim(const Dim& dim) {
        bound_.dim_roots_.push_back(bound_.nodes_.size());
        bound_.nodes_.emplace_back();
        fill(bound_.dim_roots_.back(), dim);
        bound_.shape_.push_back(bound_.nodes_[bound_.dim_roots_.back()].extent);
    }

  private:
    /// Makes room for the children of node `at`; returns the place of the first.
    std::size_t add_children(std::size_t at, LayoutNode::NodeKind kind, std::size_t count) {
        const std::size_t first = bound_.nodes_.size();
        bound_.nodes_.resize(first + count);
        bound_.nodes_[at].kind = kind;
        bound_.nodes_[at].first_child = first;
        bound_.nodes_[at].n_children = count;
        return first;
    }

    void fill(std::size_t at, const std::vector<LayoutItem>& product) {
        if (product.size() == 1) {
            fill(at, product[0]);
            return;
        }
        bound_.nodes_[at].extent = extents_.of(product);
        const std::size_t first = add_children(at, LayoutNode::NodeKind::product, product.size());
        for (const std::size_t i : indices(product)) {
            fill(first + i, product[i]);
        }
    }

    void fill(std::size_t at, const LayoutItem& item) {
        bound_.nodes_[at].extent = extents_.of(item);
        if (item.segments.empty()) {
            return;
        }
        const std::size_t first = add_children(at, LayoutNode::NodeKind::sum, item.segments.size());
        Index begin = 0;
        for (const std::size_t i : indices(item.segments)) {
            fill(first + i, item.segments[i].items);
            bound_.nodes_[first + i].begin = begin;
            bound_.nodes_[first + i].segment = segment_named(item.segments[i].label);
            begin += bound_.nodes_[first + i].extent;
        }
    }

    [[nodiscard]] int segment_named(const std::string& label) const {
        const auto& segments = bound_.segments_;
        const auto is_it = [&](const SegmentAxes& segment) { return segment.label == label; };
        const auto found = std::ranges::find_if(segments, is_it);
        return found == segments.end() ? -1 : static_cast<int>(found - segments.begin());
    }

    const Extents& extents_;
    BoundLayout& bound_;
};

BoundLayout BoundLayout::bind(const Layout& layout, const ExtentOf& extent_of,
                              std::optional<std::span<const Index>> stored) {
    Extents extents(layout, extent_of);
    if (stored && stored->size() != layout.dims.size()) {
        refuse(layout, extents, stored,
               "it has " + std::to_string(stored->size()) + " of the " +
                   std::to_string(layout.dims.size()) + " dimensions expected");
    }
    if (extents.has_star() && !stored) {
        throw Error(ErrorCode::usage, quoted(layout) +
                                          " has a '*', which is solved from a stored shape; here "
                                          "there is none, so name the axis");
    }
    if (extents.has_star()) {
        solve_star(layout, stored, extents);
    }

    BoundLayout bound;
    bound.segments_ = segments_of(layout);
    Builder builder(extents, bound);
    for (const Dim& dim : layout.dims) {
        builder.add_dim(dim);
    }
    static_cast<void>(volume_of(bound.shape_, "the shape of " + quoted(layout)));
    for (std::size_t k = 0; stored && k < bound.shape_.size(); ++k) {
        if ((*stored)[k] != bound.shape_[k]) {
            refuse(layout, extents, stored,
                   dimension_is(k, (*stored)[k]) + std::to_string(bound.shape_[k]));
        }
    }
    for_each_segment(layout, [&](const SegmentPath& path) {
        const std::vector<std::string>& names = bound.segments_[bound.slots_.size()].axes;
        std::vector<std::size_t>& slots = bound.slots_.emplace_back();
        std::vector<Index>& axis_extents = bound.extents_.emplace_back(names.size());
        for (const LayoutItem* axis : path.axes) {
            const auto found = std::ranges::lower_bound(names, axis->name);
            slots.push_back(static_cast<std::size_t>(found - names.begin()));
            axis_extents[slots.back()] = extents.of(axis->name);
        }
    });
    return bound;
}

}  // namespace shardweld::layout

// Walking a stored patch down a bound layout: at a product the range of an axis is cut into boxes
// of its factors, at a sum it is clipped and rebased.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/index.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "expression.hpp"
#include "range_boxes.hpp"

namespace shardweld::layout {

/// One call of lower(). Millions are made, so what is still to do is a list on the call stack and
/// nothing is allocated but the results.
class BoundLayout::Walk {
  public:
    Walk(const BoundLayout& bound, std::vector<SegmentPatch>& out) : bound_(bound), out_(out) {}

    /// An axis of the patch and the node it is to be lowered by; then the next ones.
    struct ToDo {
        Axis axis;
        std::size_t node = 0;
        const ToDo* next = nullptr;
    };

    /// Where the walk is: the storage address so far, the axes met and the last label passed.
    struct WalkState {
        Index offset = 0;
        std::size_t n_axes = 0;
        int segment = 0;
    };

    void walk(const ToDo* todo, WalkState state) {
        for (; todo != nullptr; todo = todo->next) {
            const LayoutNode& node = bound_.nodes_[todo->node];
            if (node.kind == LayoutNode::NodeKind::product) {
                return product(node, *todo, state);
            }
            if (node.kind == LayoutNode::NodeKind::sum) {
                return sum(node, *todo, state);
            }
            axes_[state.n_axes++] = todo->axis;
        }
        emit(state);
    }

  private:
    /// a * b where the product matters only if it fits: strides of axes of extent 1 may be
    /// anything.
    static Index stride_product(Index a, Index b) {
        return static_cast<Index>(static_cast<Bytes>(a) * static_cast<Bytes>(b));
    }

    void product(const LayoutNode& node, const ToDo& todo, const WalkState& state) {
        const std::size_t n = node.n_children;
        if (n == 0) {  // the empty product has one element
            walk(todo.next, state);
            return;
        }
        std::array<Index, kMaxAxes> factors;
        for (std::size_t i = 0; i < n; ++i) {
            factors[i] = bound_.nodes_[node.first_child + i].extent;
        }
        const Axis& axis = todo.axis;
        const auto each = [&](const Box& box, Index first) {
            std::array<ToDo, kMaxAxes> parts;
            Index stride = axis.stride;
            const ToDo* next = todo.next;
            for (std::size_t i = n; i > 0; --i) {
                parts[i - 1] = {
                    {box[i - 1].lo, box[i - 1].extent, stride}, node.first_child + i - 1, next};
                next = &parts[i - 1];
                stride = stride_product(stride, factors[i - 1]);
            }
            const Index offset = state.offset + (first - axis.lo) * axis.stride;
            walk(next, {offset, state.n_axes, state.segment});
        };
        for_each_range_box(axis.lo, axis.range().end(), std::span(factors.data(), n), each);
    }

    void sum(const LayoutNode& node, const ToDo& todo, const WalkState& state) {
        const Axis& axis = todo.axis;
        for (std::size_t i = 0; i < node.n_children; ++i) {
            const LayoutNode& child = bound_.nodes_[node.first_child + i];
            const Range both = meet(axis.range(), {child.begin, child.extent});
            if (both.extent > 0) {
                const ToDo inside{{both.lo - child.begin, both.extent, axis.stride},
                                  node.first_child + i,
                                  todo.next};
                const Index offset = state.offset + (both.lo - axis.lo) * axis.stride;
                walk(&inside, {offset, state.n_axes, child.segment});
            }
        }
    }

    void emit(const WalkState& state) {
        SegmentPatch& made = out_.emplace_back();
        made.segment = state.segment;
        made.patch.offset = state.offset;
        made.patch.axes.resize(state.n_axes);
        const auto& slots = bound_.slots_[static_cast<std::size_t>(state.segment)];
        for (std::size_t i = 0; i < state.n_axes; ++i) {
            made.patch.axes[slots[i]] = axes_[i];
        }
    }

    const BoundLayout& bound_;
    std::vector<SegmentPatch>& out_;
    std::array<Axis, kMaxAxes> axes_{};  // axes met, in the order of the text
};

void BoundLayout::lower(const Patch& stored, std::vector<SegmentPatch>& out) const {
    bool inside = stored.axes.size() == shape_.size();
    for (std::size_t k = 0; inside && k < shape_.size(); ++k) {
        const Axis& axis = stored.axes[k];
        if (axis.extent == 0) {
            return;
        }
        inside = axis.lo >= 0 && axis.extent > 0 && axis.lo < shape_[k] &&
                 axis.extent <= shape_[k] - axis.lo;
    }
    if (!inside) {
        throw Error(ErrorCode::mismatch, "the piece " + to_text(stored) +
                                             " lies outside its tensor's shape " +
                                             shape_text(shape_));
    }
    std::array<Walk::ToDo, kMaxAxes> todo;
    for (std::size_t k = shape_.size(); k > 0; --k) {
        todo[k - 1] = {stored.axes[k - 1], dim_roots_[k - 1],
                       k < shape_.size() ? &todo[k] : nullptr};
    }
    Walk(*this, out).walk(shape_.empty() ? nullptr : todo.data(), {stored.offset, 0, 0});
}

}  // namespace shardweld::layout

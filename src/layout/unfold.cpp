#include "unfold.hpp"

#include <optional>
#include <utility>

#include "core/lists.hpp"
#include "core/strides.hpp"

namespace shardweld::layout {

namespace {

/// A nest with the tensor on its source side.
class Unfolder {
  public:
    explicit Unfolder(std::span<const Index> shape)
        : shape_(shape), strides_(dense_strides(shape)) {}

    std::vector<Patch> unfold(const Copy& copy) {
        add(copy);
        return std::move(patches_);
    }

  private:
    /// The axis along which a loop's addresses grow by one index; nullopt: they jump.
    [[nodiscard]] std::optional<std::size_t> axis_of(const Loop& loop) const {
        for (const std::size_t k : indices(shape_)) {
            if (shape_[k] > 1 && strides_[k] == loop.src_stride) {
                return k;
            }
        }
        return std::nullopt;
    }

    void add(const Copy& copy) {
        Patch patch;
        patch.offset = copy.dst_offset;
        for (const std::size_t k : indices(shape_)) {
            patch.axes.push_back({copy.src_offset / strides_[k] % shape_[k], 1, 0});
        }
        for (const std::size_t i : indices(copy.loops)) {
            const Loop& loop = copy.loops[i];
            const auto at = axis_of(loop);
            if (!at || patch.axes[*at].extent > 1) {
                add_turns(copy, i);
                return;
            }
            Axis& axis = patch.axes[*at];
            const Index room = shape_[*at] - axis.lo;
            if (loop.extent > room) {
                add_rows(copy, i, axis.lo == 0 ? shape_[*at] : room, axis.lo == 0);
                return;
            }
            axis = {axis.lo, loop.extent, loop.dst_stride};
        }
        patches_.push_back(std::move(patch));
    }

    /// A loop over several rows of an axis: whole ones become a loop of their own; what stands
    /// before or behind them is apart.
    void add_rows(const Copy& copy, std::size_t at, Index n, bool is_whole) {
        const Loop loop = copy.loops[at];
        const Index taken = is_whole ? loop.extent / n * n : n;
        Copy first = copy;
        first.loops[at].extent = n;
        if (taken > n) {
            first.loops.push_back({taken / n, n * loop.src_stride, n * loop.dst_stride});
        }
        add(first);
        if (taken < loop.extent) {
            Copy rest = copy;
            rest.src_offset += taken * loop.src_stride;
            rest.dst_offset += taken * loop.dst_stride;
            rest.loops[at].extent = loop.extent - taken;
            add(rest);
        }
    }

    /// Each turn of a loop by itself.
    void add_turns(const Copy& copy, std::size_t at) {
        Copy turn = copy;
        turn.loops.erase_at(at);
        for (Index j = 0; j < copy.loops[at].extent; ++j) {
            add(turn);
            turn.src_offset += copy.loops[at].src_stride;
            turn.dst_offset += copy.loops[at].dst_stride;
        }
    }

    std::span<const Index> shape_;
    std::vector<Index> strides_;
    std::vector<Patch> patches_;
};

/// The axis over whose indices a loop steps, several at a time, and how many; nullopt: over none.
std::optional<std::pair<std::size_t, Index>> stepped_over(const Loop& loop,
                                                          const std::vector<Index>& shape) {
    const std::vector<Index> strides = dense_strides(shape);
    for (const std::size_t k : indices(shape)) {
        const Index n = loop.src_stride / strides[k];
        if (n > 1 && n < shape[k] && shape[k] % n == 0 && loop.src_stride % strides[k] == 0) {
            return std::pair(k, n);
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<Index> divided_src(const Copy& copy, std::vector<Index> shape) {
    for (const Loop& loop : copy.loops) {
        const auto found = stepped_over(loop, shape);
        if (found && shape.size() < kMaxAxes) {
            shape[found->first] /= found->second;
            shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(found->first) + 1,
                         found->second);
        }
    }
    return shape;
}

std::vector<Patch> unfold_src(const Copy& copy, std::span<const Index> shape) {
    return Unfolder(shape).unfold(copy);
}

std::vector<Patch> unfold_dst(const Copy& copy, std::span<const Index> shape) {
    return unfold_src(turned(copy), shape);
}

}  // namespace shardweld::layout

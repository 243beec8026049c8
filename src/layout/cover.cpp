#include "cover.hpp"

#include <algorithm>
#include <utility>

#include "core/lists.hpp"

namespace shardweld::layout {

namespace {

// Boxes no axis cuts apart (a pinwheel) are compared pair by pair up to this number.
constexpr std::size_t kMaxIrregular = 2000;
constexpr int kMaxCuts = 64;

/// Boxes, by number, that have to fill a box of the tensor.
using Numbers = std::span<std::size_t>;

/// Where a part of a region begins: on an axis, and in the region's boxes, which are in its order.
struct Slab {
    Index lo = 0;
    std::size_t first = 0;
};

class Tiling {
  public:
    Tiling(std::span<const Index> shape, std::span<const CoverBox> boxes)
        : boxes_(boxes), lo_(shape.size(), 0), hi_(shape.begin(), shape.end()) {}

    /// Whether the boxes fill the region; otherwise result() says why not.
    bool check(Numbers boxes, std::size_t first_axis, int cuts) {
        if (fills(boxes)) {
            return true;
        }
        const std::size_t rank = lo_.size();
        for (std::size_t i = 0; i < rank; ++i) {
            const std::size_t axis = (first_axis + i) % rank;
            std::vector<Slab> slabs;
            if (!cut(boxes, axis, slabs)) {
                return false;
            }
            if (slabs.size() == 1) {
                continue;
            }
            if (cuts == kMaxCuts) {
                result_.kind = CoverKind::irregular;
                return false;
            }
            const Index lo = lo_[axis];
            slabs.push_back({hi_[axis], boxes.size()});
            for (std::size_t k = 0; k + 1 < slabs.size(); ++k) {
                lo_[axis] = slabs[k].lo;
                hi_[axis] = slabs[k + 1].lo;
                const std::size_t n = slabs[k + 1].first - slabs[k].first;
                if (!check(boxes.subspan(slabs[k].first, n), (axis + 1) % rank, cuts + 1)) {
                    return false;
                }
            }
            lo_[axis] = lo;
            return true;
        }
        return check_pairs(boxes);
    }

    /// The plain case of overlap, boxes at one place, as the first thing to be told.
    bool differ(std::vector<std::size_t> numbers) {
        const auto offsets = [&](std::size_t number) { return boxes_[number].offsets; };
        std::ranges::sort(numbers, [&](std::size_t a, std::size_t b) {
            return std::lexicographical_compare(offsets(a).begin(), offsets(a).end(),
                                                offsets(b).begin(), offsets(b).end());
        });
        const auto twice = std::ranges::adjacent_find(numbers, [&](std::size_t a, std::size_t b) {
            return std::equal(offsets(a).begin(), offsets(a).end(), offsets(b).begin());
        });
        return twice == numbers.end() || set_overlap(*twice, *(twice + 1));
    }

    /// All of the region.
    bool set_gap() {
        result_ = {CoverKind::gap, lo_, hi_, 0, 0, 0};
        return false;
    }

    [[nodiscard]] Cover result() const {
        Cover result = result_;
        result.n_looks = n_looks_;
        return result;
    }

  private:
    [[nodiscard]] Index begin(std::size_t box, std::size_t axis) const {
        return boxes_[box].offsets[axis];
    }
    [[nodiscard]] Index end(std::size_t box, std::size_t axis) const {
        return boxes_[box].offsets[axis] + boxes_[box].sizes[axis];
    }

    bool set_overlap(std::size_t first, std::size_t second) {
        result_ = {CoverKind::overlap, {}, {}, first, second, 0};
        return false;
    }

    // One box that is the whole region.
    [[nodiscard]] bool fills(Numbers boxes) const {
        if (boxes.size() != 1) {
            return false;
        }
        for (const std::size_t axis : indices(lo_)) {
            if (begin(boxes.front(), axis) != lo_[axis] || end(boxes.front(), axis) != hi_[axis]) {
                return false;
            }
        }
        return true;
    }

    // Cuts the region at every plane across `axis` that no box crosses; false when a slab is empty.
    bool cut(Numbers boxes, std::size_t axis, std::vector<Slab>& slabs) {
        std::ranges::sort(
            boxes, [&](std::size_t a, std::size_t b) { return begin(a, axis) < begin(b, axis); });
        n_looks_ += boxes.size();
        Index reached = lo_[axis];
        for (const std::size_t i : indices(boxes)) {
            const std::size_t box = boxes[i];
            if (begin(box, axis) > reached) {
                return set_slab_gap(axis, reached, begin(box, axis));
            }
            if (slabs.empty() || begin(box, axis) == reached) {
                slabs.push_back({reached, i});
            }
            reached = std::max(reached, end(box, axis));
        }
        return reached >= hi_[axis] || set_slab_gap(axis, reached, hi_[axis]);
    }

    bool set_slab_gap(std::size_t axis, Index lo, Index hi) {
        lo_[axis] = lo;
        hi_[axis] = hi;
        return set_gap();
    }

    bool check_pairs(Numbers boxes) {
        if (boxes.size() > kMaxIrregular) {
            result_.kind = CoverKind::irregular;
            return false;
        }
        n_looks_ += boxes.size() * boxes.size() / 2;
        Index covered = 0;
        for (const std::size_t i : indices(boxes)) {
            for (std::size_t j = 0; j < i; ++j) {
                if (overlap(boxes[j], boxes[i])) {
                    return set_overlap(boxes[j], boxes[i]);
                }
            }
            covered = checked_add(covered, volume_of(boxes_[boxes[i]].sizes, "a box"), "boxes");
        }
        Index wanted = 1;
        for (const std::size_t axis : indices(lo_)) {
            wanted = checked_mul(wanted, hi_[axis] - lo_[axis], "a tensor's shape");
        }
        return covered == wanted || set_gap();
    }

    [[nodiscard]] bool overlap(std::size_t a, std::size_t b) const {
        for (const std::size_t axis : indices(boxes_[a].offsets)) {
            if (begin(a, axis) >= end(b, axis) || begin(b, axis) >= end(a, axis)) {
                return false;
            }
        }
        return true;
    }

    std::span<const CoverBox> boxes_;
    // The region that is looked at: of the tensor, or of one of the parts that it is cut into.
    std::vector<Index> lo_;
    std::vector<Index> hi_;
    Cover result_;
    std::size_t n_looks_ = 0;
};

}  // namespace

Cover check_cover(std::span<const Index> shape, std::span<const CoverBox> boxes) {
    if (volume_of(shape, "a tensor's shape") == 0) {
        return {};  // boxes lie inside the shape, so they are empty too
    }
    Tiling tiling(shape, boxes);
    std::vector<std::size_t> whole;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (volume_of(boxes[i].sizes, "a box") > 0) {
            whole.push_back(i);
        }
    }
    if (whole.empty()) {
        tiling.set_gap();
    } else if (tiling.differ(whole)) {
        tiling.check(whole, 0, 0);
    }
    return tiling.result();
}

Cover check_cover(const Patch& whole, std::span<const Patch* const> parts) {
    if (parts.size() == 1 && parts.front()->volume() == whole.volume()) {
        return {};
    }
    const std::size_t rank = whole.axes.size();
    std::vector<Index> numbers;  // offsets and sizes of all boxes
    numbers.reserve((parts.size() * 2 + 1) * rank);
    for (const Patch* const part : parts) {
        for (std::size_t k = 0; k < rank; ++k) {
            numbers.push_back(part->axes[k].lo - whole.axes[k].lo);
        }
        for (std::size_t k = 0; k < rank; ++k) {
            numbers.push_back(part->axes[k].extent);
        }
    }
    for (const Axis& axis : whole.axes) {
        numbers.push_back(axis.extent);
    }
    const std::span<const Index> all(numbers);
    std::vector<CoverBox> boxes;
    boxes.reserve(parts.size());
    for (const std::size_t i : indices(parts)) {
        boxes.push_back({all.subspan(2 * i * rank, rank), all.subspan((2 * i + 1) * rank, rank)});
    }
    return check_cover(all.last(rank), boxes);
}

}  // namespace shardweld::layout

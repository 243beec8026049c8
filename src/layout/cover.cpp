#include "cover.hpp"

#include <algorithm>
#include <utility>

#include "core/lists.hpp"

namespace shardweld::layout {

namespace {

// Boxes no axis cuts apart (a pinwheel) are compared pair by pair up to this number.
constexpr std::size_t kMaxIrregular = 2000;
constexpr int kMaxCuts = 64;

/// Some boxes, by number, that have to fill a box of the tensor.
struct Region {
    std::vector<Index> lo;
    std::vector<Index> hi;
    std::vector<std::size_t> boxes;
};

class Tiling {
  public:
    explicit Tiling(std::span<const CoverBox> boxes) : boxes_(boxes) {}

    /// Whether the region is filled; otherwise result() says why not.
    bool check(Region region, std::size_t first_axis, int cuts) {
        if (fills(region)) {
            return true;
        }
        const std::size_t rank = region.lo.size();
        for (std::size_t i = 0; i < rank; ++i) {
            const std::size_t axis = (first_axis + i) % rank;
            std::vector<Region> parts;
            if (!cut(region, axis, parts)) {
                return false;
            }
            if (parts.size() == 1) {
                continue;
            }
            if (cuts == kMaxCuts) {
                result_.kind = CoverKind::irregular;
                return false;
            }
            region = {};
            return std::ranges::all_of(parts, [&](Region& part) {
                return check(std::move(part), (axis + 1) % rank, cuts + 1);
            });
        }
        return check_pairs(region);
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

    bool set_gap(std::vector<Index> lo, std::vector<Index> hi) {
        result_ = {CoverKind::gap, std::move(lo), std::move(hi), 0, 0, 0};
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
    [[nodiscard]] bool fills(const Region& region) const {
        if (region.boxes.size() != 1) {
            return false;
        }
        for (const std::size_t axis : indices(region.lo)) {
            if (begin(region.boxes.front(), axis) != region.lo[axis] ||
                end(region.boxes.front(), axis) != region.hi[axis]) {
                return false;
            }
        }
        return true;
    }

    // Cuts the region at every plane across `axis` that no box crosses; false when a slab is empty.
    bool cut(Region& region, std::size_t axis, std::vector<Region>& parts) {
        std::ranges::sort(region.boxes, [&](std::size_t a, std::size_t b) {
            return begin(a, axis) < begin(b, axis);
        });
        n_looks_ += region.boxes.size();
        Index reached = region.lo[axis];
        for (const std::size_t box : region.boxes) {
            if (begin(box, axis) > reached) {
                return set_slab_gap(region, axis, reached, begin(box, axis));
            }
            if (parts.empty() || begin(box, axis) == reached) {
                if (!parts.empty()) {
                    parts.back().hi[axis] = reached;
                }
                parts.push_back({region.lo, region.hi, {}});
                parts.back().lo[axis] = reached;
            }
            parts.back().boxes.push_back(box);
            reached = std::max(reached, end(box, axis));
        }
        return reached >= region.hi[axis] || set_slab_gap(region, axis, reached, region.hi[axis]);
    }

    bool set_slab_gap(const Region& region, std::size_t axis, Index lo, Index hi) {
        std::vector<Index> from = region.lo;
        std::vector<Index> to = region.hi;
        from[axis] = lo;
        to[axis] = hi;
        return set_gap(std::move(from), std::move(to));
    }

    bool check_pairs(const Region& region) {
        const std::vector<std::size_t>& boxes = region.boxes;
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
        for (const std::size_t axis : indices(region.lo)) {
            wanted = checked_mul(wanted, region.hi[axis] - region.lo[axis], "a tensor's shape");
        }
        return covered == wanted || set_gap(region.lo, region.hi);
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
    Cover result_;
    std::size_t n_looks_ = 0;
};

}  // namespace

Cover check_cover(std::span<const Index> shape, std::span<const CoverBox> boxes) {
    if (volume_of(shape, "a tensor's shape") == 0) {
        return {};  // boxes lie inside the shape, so they are empty too
    }
    Tiling tiling(boxes);
    Region whole;
    whole.lo.assign(shape.size(), 0);
    whole.hi.assign(shape.begin(), shape.end());
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (volume_of(boxes[i].sizes, "a box") > 0) {
            whole.boxes.push_back(i);
        }
    }
    if (whole.boxes.empty()) {
        tiling.set_gap(whole.lo, whole.hi);
    } else if (tiling.differ(whole.boxes)) {
        tiling.check(std::move(whole), 0, 0);
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

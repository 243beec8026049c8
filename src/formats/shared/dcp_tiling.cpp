// Do the chunks of a tensor cover it exactly once?
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/shared/dcp_metadata.hpp"

namespace shardweld::formats {

namespace {

// Chunks no axis cuts apart (a pinwheel) are compared pair by pair up to this number.
constexpr std::size_t kMaxIrregular = 2000;
constexpr int kMaxCuts = 64;

/// Some chunks that have to fill a box of the tensor.
struct Region {
    std::vector<Index> lo;
    std::vector<Index> hi;
    std::vector<const DcpChunk*> chunks;
};

Index end_of(const DcpChunk& chunk, std::size_t axis) {
    return chunk.offsets[axis] + chunk.sizes[axis];
}

std::string chunk_text(const DcpChunk& chunk) {
    return "the chunk of " + shape_text(chunk.sizes) + " at " + shape_text(chunk.offsets);
}

class Tiling {
  public:
    explicit Tiling(const DcpTensor& tensor) : tensor_(tensor) {}

    void check(Region region, std::size_t first_axis, int cuts) const {
        if (fills(region)) {
            return;
        }
        const std::size_t rank = tensor_.shape.size();
        for (std::size_t i = 0; i < rank; ++i) {
            const std::size_t axis = (first_axis + i) % rank;
            std::vector<Region> parts = cut(region, axis);
            if (parts.size() == 1) {
                continue;
            }
            if (cuts == kMaxCuts) {
                throw_irregular();
            }
            region = {};
            for (Region& part : parts) {
                check(std::move(part), (axis + 1) % rank, cuts + 1);
            }
            return;
        }
        check_pairs(region);
    }

    [[noreturn]] void throw_gap(const std::vector<Index>& lo, const std::vector<Index>& hi) const {
        throw Error(ErrorCode::corrupt, name() + " of shape " + shape_text(tensor_.shape) +
                                            " is not covered by its chunks between " +
                                            shape_text(lo) + " and " + shape_text(hi) +
                                            "; the checkpoint is incomplete");
    }

    [[noreturn]] void throw_overlap(const DcpChunk& a, const DcpChunk& b) const {
        throw Error(ErrorCode::corrupt, name() + ": chunks of one tensor overlap: " +
                                            chunk_text(a) + " and " + chunk_text(b));
    }

  private:
    [[nodiscard]] std::string name() const { return "tensor '" + printable(tensor_.name) + "'"; }

    [[noreturn]] void throw_irregular() const {
        throw Error(ErrorCode::unsupported,
                    name() +
                        ": its chunks do not form a grid or slabs; shardweld cannot check "
                        "that they cover it once");
    }

    // One chunk that is the whole region.
    static bool fills(const Region& region) {
        if (region.chunks.size() != 1) {
            return false;
        }
        const DcpChunk& chunk = *region.chunks.front();
        for (std::size_t axis = 0; axis < region.lo.size(); ++axis) {
            if (chunk.offsets[axis] != region.lo[axis] || end_of(chunk, axis) != region.hi[axis]) {
                return false;
            }
        }
        return true;
    }

    // Cuts the region at every plane across `axis` that no chunk crosses.
    [[nodiscard]] std::vector<Region> cut(Region& region, std::size_t axis) const {
        std::sort(region.chunks.begin(), region.chunks.end(),
                  [axis](const DcpChunk* a, const DcpChunk* b) {
                      return a->offsets[axis] < b->offsets[axis];
                  });
        std::vector<Region> parts;
        Index reached = region.lo[axis];
        for (const DcpChunk* const chunk : region.chunks) {
            if (chunk->offsets[axis] > reached) {
                throw_slab_gap(region, axis, reached, chunk->offsets[axis]);
            }
            if (parts.empty() || chunk->offsets[axis] == reached) {
                if (!parts.empty()) {
                    parts.back().hi[axis] = reached;
                }
                parts.push_back({region.lo, region.hi, {}});
                parts.back().lo[axis] = reached;
            }
            parts.back().chunks.push_back(chunk);
            reached = std::max(reached, end_of(*chunk, axis));
        }
        if (reached < region.hi[axis]) {
            throw_slab_gap(region, axis, reached, region.hi[axis]);
        }
        return parts;
    }

    [[noreturn]] void throw_slab_gap(const Region& region, std::size_t axis, Index lo,
                                     Index hi) const {
        std::vector<Index> from = region.lo;
        std::vector<Index> to = region.hi;
        from[axis] = lo;
        to[axis] = hi;
        throw_gap(from, to);
    }

    void check_pairs(const Region& region) const {
        const std::vector<const DcpChunk*>& chunks = region.chunks;
        if (chunks.size() > kMaxIrregular) {
            throw_irregular();
        }
        Index covered = 0;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                if (overlap(*chunks[j], *chunks[i])) {
                    throw_overlap(*chunks[j], *chunks[i]);
                }
            }
            covered = checked_add(covered, volume_of(chunks[i]->sizes, "a chunk"), "chunks");
        }
        Index wanted = 1;
        for (std::size_t axis = 0; axis < region.lo.size(); ++axis) {
            wanted = checked_mul(wanted, region.hi[axis] - region.lo[axis], "a tensor's shape");
        }
        if (covered != wanted) {
            throw_gap(region.lo, region.hi);
        }
    }

    static bool overlap(const DcpChunk& a, const DcpChunk& b) {
        for (std::size_t axis = 0; axis < a.offsets.size(); ++axis) {
            if (a.offsets[axis] >= end_of(b, axis) || b.offsets[axis] >= end_of(a, axis)) {
                return false;
            }
        }
        return true;
    }

    const DcpTensor& tensor_;
};

}  // namespace

void check_tiling(const DcpTensor& tensor) {
    const Tiling tiling(tensor);
    Region whole;
    whole.lo.assign(tensor.shape.size(), 0);
    whole.hi = tensor.shape;
    for (const DcpChunk& chunk : tensor.chunks) {
        if (volume_of(chunk.sizes, "a chunk") > 0) {
            whole.chunks.push_back(&chunk);
        }
    }
    if (volume_of(tensor.shape, "a tensor's shape") == 0) {
        return;  // chunks lie inside the shape, so they are empty too
    }
    if (whole.chunks.empty()) {
        tiling.throw_gap(whole.lo, whole.hi);
    }
    // The plain case of overlap gets the plain message; a scalar has no axis to cut.
    std::sort(whole.chunks.begin(), whole.chunks.end(),
              [](const DcpChunk* a, const DcpChunk* b) { return a->offsets < b->offsets; });
    const auto twice = std::adjacent_find(
        whole.chunks.begin(), whole.chunks.end(),
        [](const DcpChunk* a, const DcpChunk* b) { return a->offsets == b->offsets; });
    if (twice != whole.chunks.end()) {
        tiling.throw_overlap(**twice, **(twice + 1));
    }
    tiling.check(std::move(whole), 0, 0);
}

}  // namespace shardweld::formats

#include "fuse.hpp"

#include <algorithm>
#include <utility>

#include "core/lists.hpp"

namespace shardweld::plan {

namespace {

using layout::Axis;
using layout::Patch;

// Layers times experts of one stack: 61 x 384 are a tenth.
constexpr Index kMostParts = Index{1} << 18U;

/// The pair of a patch, of which the inner axis has n elements in all, as one axis; the outer one
/// stays with a unit extent. Several patches when the two do not lie behind one another in storage.
void fuse_pair(const Patch& patch, const FusedPair& pair, Index n, std::vector<Patch>& out) {
    const Axis a = patch.axes[pair.outer];
    const Axis b = patch.axes[pair.inner];
    const bool is_run = b.lo == 0 && b.extent == n && a.stride == n * b.stride;
    const Index n_parts = is_run ? 1 : a.extent;
    require_few_parts(n_parts);
    for (Index part = 0; part < n_parts; ++part) {
        Patch fused = patch;
        fused.offset += part * a.stride;
        fused.axes[pair.outer] = {0, 1, 0};
        fused.axes[pair.inner] = is_run ? Axis{a.lo * n, a.extent * n, b.stride}
                                        : Axis{(a.lo + part) * n + b.lo, b.extent, b.stride};
        for (const std::size_t j : pair.swapped) {
            std::swap(fused.axes[j], fused.axes[j + 1]);
        }
        out.push_back(fused);
    }
}

/// Axes are compared in the order of their names: a new name may belong elsewhere.
void sort_axes(SegmentPlan& plan, FusedPair& pair) {
    for (std::size_t i = 0; i + 1 < plan.axes.size(); ++i) {
        for (std::size_t j = 0; j + 1 < plan.axes.size() - i; ++j) {
            if (plan.axes[j] <= plan.axes[j + 1]) {
                continue;
            }
            std::swap(plan.axes[j], plan.axes[j + 1]);
            std::swap(plan.key_slot[j], plan.key_slot[j + 1]);
            pair.swapped.push_back(j);
        }
    }
}

}  // namespace

void require_few_parts(Index n_parts) {
    if (n_parts > kMostParts) {
        throw Error(ErrorCode::mismatch,
                    "config.json cuts one tensor into " + std::to_string(n_parts) +
                        " parts, at most " + std::to_string(kMostParts) + " are expected",
                    "correct config.json: no model has so many layers or experts");
    }
}

void fuse_axes(const FuseRules& rules, SegmentPlan& plan) {
    const std::vector<std::string> names = plan.axes;
    const auto place_in = [](const std::vector<std::string>& axes, const std::string& axis) {
        return static_cast<std::size_t>(std::ranges::find(axes, axis) - axes.begin());
    };
    for (const auto& [axis, parts] : rules) {
        if (parts.size() != 2 || !contains(plan.axes, parts.front()) ||
            !contains(plan.axes, parts.back())) {
            continue;
        }
        FusedPair pair{place_in(plan.axes, parts.front()),
                       place_in(plan.axes, parts.back()),
                       place_in(names, parts.back()),
                       {}};
        plan.axes[pair.inner] = axis;
        plan.key_slot[pair.outer] = kGone;
        sort_axes(plan, pair);
        plan.pairs.push_back(std::move(pair));
    }
}

std::vector<Patch> fused(const std::vector<FusedPair>& pairs, const std::vector<Index>& extents,
                         const Patch& patch) {
    std::vector<Patch> patches;
    fuse_pair(patch, pairs.front(), extents[pairs.front().extent_at], patches);
    for (std::size_t i = 1; i < pairs.size(); ++i) {
        std::vector<Patch> made;
        for (const Patch& one : patches) {
            fuse_pair(one, pairs[i], extents[pairs[i].extent_at], made);
        }
        patches = std::move(made);
    }
    return patches;
}

}  // namespace shardweld::plan

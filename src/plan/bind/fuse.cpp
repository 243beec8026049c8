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

/// Axes `outer` and `inner` (of extent n) of a patch seen as one axis at `inner`'s place; `outer`
/// stays with a unit extent. Several patches when the two do not lie behind one another in storage.
void fuse_pair(const Patch& patch, std::size_t outer, std::size_t inner, Index n,
               std::vector<Patch>& out) {
    const Axis a = patch.axes[outer];
    const Axis b = patch.axes[inner];
    const bool is_run = b.lo == 0 && b.extent == n && a.stride == n * b.stride;
    const Index n_parts = is_run ? 1 : a.extent;
    require_few_parts(n_parts);
    for (Index part = 0; part < n_parts; ++part) {
        Patch fused = patch;
        fused.offset += part * a.stride;
        fused.axes[outer] = {0, 1, 0};
        fused.axes[inner] = is_run ? Axis{a.lo * n, a.extent * n, b.stride}
                                   : Axis{(a.lo + part) * n + b.lo, b.extent, b.stride};
        out.push_back(fused);
    }
}

/// Axes are compared in the order of their names: a new name may belong elsewhere.
void sort_axes(SegmentPlan& plan, std::vector<Patch>& patches) {
    for (std::size_t i = 0; i + 1 < plan.axes.size(); ++i) {
        for (std::size_t j = 0; j + 1 < plan.axes.size() - i; ++j) {
            if (plan.axes[j] <= plan.axes[j + 1]) {
                continue;
            }
            std::swap(plan.axes[j], plan.axes[j + 1]);
            std::swap(plan.key_slot[j], plan.key_slot[j + 1]);
            for (Patch& patch : patches) {
                std::swap(patch.axes[j], patch.axes[j + 1]);
            }
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

bool is_fused(const FuseRules& rules, const std::vector<std::string>& axes) {
    const auto has = [&](const std::string& axis) { return contains(axes, axis); };
    return std::ranges::any_of(rules, [&](const auto& rule) {
        return has(rule.second.front()) && has(rule.second.back());
    });
}

void fuse_axes(const FuseRules& rules, const std::vector<Index>& extents, SegmentPlan& plan,
               std::vector<Patch>& patches) {
    const std::vector<std::string> names = plan.axes;
    for (const auto& [axis, parts] : rules) {
        const auto outer = std::ranges::find(plan.axes, parts.front());
        const auto inner = std::ranges::find(plan.axes, parts.back());
        if (parts.size() != 2 || outer == plan.axes.end() || inner == plan.axes.end()) {
            continue;
        }
        const auto outer_at = static_cast<std::size_t>(outer - plan.axes.begin());
        const auto inner_at = static_cast<std::size_t>(inner - plan.axes.begin());
        const auto extent = extents[static_cast<std::size_t>(
            std::ranges::find(names, parts.back()) - names.begin())];
        std::vector<Patch> fused;
        for (const Patch& patch : patches) {
            fuse_pair(patch, outer_at, inner_at, extent, fused);
        }
        patches = std::move(fused);
        plan.axes[inner_at] = axis;
        plan.key_slot[outer_at] = kGone;
        sort_axes(plan, patches);
    }
}

}  // namespace shardweld::plan

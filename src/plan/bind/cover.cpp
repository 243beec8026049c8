#include "cover.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace shardweld::plan {

namespace {

bool meet(const layout::Patch& a, const layout::Patch& b) {
    for (std::size_t k = 0; k < a.axes.size(); ++k) {
        if (a.axes[k].lo >= b.axes[k].lo + b.axes[k].extent ||
            b.axes[k].lo >= a.axes[k].lo + a.axes[k].extent) {
            return false;
        }
    }
    return true;
}

/// The axis along which the boxes begin at the most different places.
std::size_t separating_axis(const std::vector<layout::Patch>& patches) {
    std::size_t best = 0;
    std::size_t most = 0;
    for (std::size_t k = 0; k < patches.front().axes.size(); ++k) {
        std::set<Index> begins;
        for (const layout::Patch& patch : patches) {
            begins.insert(patch.axes[k].lo);
        }
        if (begins.size() > most) {
            most = begins.size();
            best = k;
        }
    }
    return best;
}

}  // namespace

std::optional<Clash> find_clash(const std::vector<layout::Patch>& patches) {
    if (patches.size() < 2) {
        return std::nullopt;
    }
    if (patches.front().axes.empty()) {
        return Clash{0, 1};
    }
    const std::size_t k = separating_axis(patches);
    std::vector<std::size_t> order(patches.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return patches[a].axes[k].lo < patches[b].axes[k].lo;
    });
    std::vector<std::size_t> open;
    for (const std::size_t next : order) {
        const Index lo = patches[next].axes[k].lo;
        std::erase_if(open, [&](std::size_t i) {
            return patches[i].axes[k].lo + patches[i].axes[k].extent <= lo;
        });
        for (const std::size_t i : open) {
            if (meet(patches[i], patches[next])) {
                return Clash{i, next};
            }
        }
        open.push_back(next);
    }
    return std::nullopt;
}

}  // namespace shardweld::plan

#include "segments.hpp"

#include <cstddef>
#include <functional>
#include <vector>

#include "core/lists.hpp"

#include "expression.hpp"

namespace shardweld::layout {

namespace {

/// Items still ahead: the rest of one product, then what follows it further out.
struct Ahead {
    const std::vector<LayoutItem>* items = nullptr;
    std::size_t at = 0;
    const Ahead* next = nullptr;
};

void walk(const Ahead* ahead, SegmentPath& path,
          const std::function<void(const SegmentPath&)>& visit) {
    while (ahead != nullptr && ahead->at == ahead->items->size()) {
        ahead = ahead->next;
    }
    if (ahead == nullptr) {
        visit(path);
        return;
    }
    const LayoutItem& item = (*ahead->items)[ahead->at];
    const Ahead after{ahead->items, ahead->at + 1, ahead->next};
    if (item.segments.empty()) {
        path.axes.push_back(&item);
        walk(&after, path, visit);
        path.axes.pop_back();
        return;
    }
    for (const Segment& segment : item.segments) {
        SegmentPath branch = path;
        branch.label = segment.label;
        branch.column = segment.column;
        const Ahead inside{&segment.items, 0, &after};
        walk(&inside, branch, visit);
    }
}

}  // namespace

void for_each_segment(const Layout& layout, const std::function<void(const SegmentPath&)>& visit) {
    std::vector<Ahead> dims(layout.dims.size());
    for (const std::size_t k : indices(dims)) {
        dims[k] = {&layout.dims[k], 0, k + 1 < dims.size() ? &dims[k + 1] : nullptr};
    }
    SegmentPath path{layout.label, 1, {}};
    walk(dims.empty() ? nullptr : dims.data(), path, visit);
}

}  // namespace shardweld::layout

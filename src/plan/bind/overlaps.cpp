#include "overlaps.hpp"

#include <algorithm>

namespace shardweld::plan {

void add_runs(const layout::Patch& patch, std::vector<layout::Range>& runs) {
    const layout::Range span = layout::address_span(patch);
    if (span.extent == patch.volume() || patch.volume() == 0) {
        runs.push_back(span);
        return;
    }
    const auto outer = std::ranges::max_element(patch.axes, {}, &layout::Axis::stride);
    for (Index at = 0; at < outer->extent; ++at) {
        layout::Patch one;
        one.offset = patch.offset + at * outer->stride;
        for (const layout::Axis& axis : patch.axes) {
            if (&axis != &*outer) {
                one.axes.push_back(axis);
            }
        }
        add_runs(one, runs);
    }
}

void overlap_into(const LogicalSegment& segment, const layout::Patch& wanted, Overlaps& found) {
    const layout::Box box = layout::box_of(wanted);
    for (const SegmentSource& source : segment.sources) {
        const auto copy = layout::overlap(source.patch, wanted);
        if (!copy) {
            continue;
        }
        auto& into = source.replica == 0 ? found.primary : found.replicas;
        into.push_back({source.file, source.base, *copy});
        if (source.replica == 0) {
            found.volume += copy->volume();
            found.clipped.push_back(*layout::clip(source.patch, box));
        }
    }
    for (const SegmentSource& source : segment.same) {
        const auto copy = layout::overlap(source.patch, wanted);
        if (copy) {
            found.same.push_back({source.file, source.base, *copy});
        }
    }
}

}  // namespace shardweld::plan

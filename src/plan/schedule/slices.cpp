// What a part of the output space takes to make, slice by slice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "plan/plan.hpp"

#include "fetch_ahead.hpp"

namespace shardweld::plan {

namespace {

bool meet(const Plan& plan, OutputRange range, const Slice& slice) {
    return slice.output_begin < range.end &&
           range.begin < slice.output_begin + plan.bytes_of(slice);
}

/// The part of a slice that lies in a range of the output space, which it meets.
Slice cut_to(const Plan& plan, OutputRange range, const Slice& slice) {
    const Bytes size = size_of(plan.tensor(slice.tensor).dtype);
    const Bytes lo = std::max(range.begin, slice.output_begin);
    const Bytes hi = std::min(range.end, slice.output_begin + plan.bytes_of(slice));
    return {slice.tensor, slice.begin + static_cast<Index>((lo - slice.output_begin) / size),
            slice.begin + static_cast<Index>((hi - slice.output_begin) / size), lo};
}

/// Calls visit(slice) for each slice of work_of.
template <typename Visit>
void for_each_work(const Plan& plan, OutputRange range, const Visit& visit) {
    if (range.begin >= range.end) {
        return;
    }
    const auto& begins = plan.space.begins;
    auto at =
        static_cast<std::size_t>(std::ranges::upper_bound(begins, range.begin) - begins.begin()) -
        1;
    for (; at < plan.space.order.size() && begins[at] < range.end; ++at) {
        fetch_ahead(plan.space.order.size() - at, [&](std::size_t n) -> const Target& {
            return plan.target_of(plan.space.order[at + n]);
        });
        const std::uint32_t number = plan.space.order[at];
        const WrittenTensor& tensor = plan.tensor(number);
        const Bytes lo = std::max(range.begin, begins[at]) - begins[at];
        const Bytes hi = std::min(range.end, begins[at + 1]) - begins[at];
        const auto strip = plan.strip_elements(number);
        if (strip == 0) {
            const Bytes size = size_of(tensor.dtype);
            if (lo < hi) {
                visit(Slice{number, static_cast<Index>(lo / size), static_cast<Index>(hi / size),
                            begins[at] + lo});
            }
            continue;
        }
        const Bytes unit = plan.target_of(number).strip_bytes();
        const bool is_alone = plan.target_of(number).n_made() == 1;
        for (Bytes i = lo / unit; i * unit < hi; ++i) {
            const Index begin = static_cast<Index>(i) * strip;
            const Slice whole{number, begin, std::min(begin + strip, tensor.volume()),
                              begins[at] + i * unit};
            visit(is_alone ? cut_to(plan, range, whole) : whole);
        }
    }
}

}  // namespace

std::vector<Slice> work_of(const Plan& plan, OutputRange range) {
    std::vector<Slice> work;
    for_each_work(plan, range, [&](const Slice& slice) { work.push_back(slice); });
    return work;
}

MadeTogether made_with(const Plan& plan, const Slice& slice) {
    MadeTogether made{slice};
    const OutputOfTarget first = plan.tensors[slice.tensor];
    const std::uint32_t n_made = first.output == 0 ? plan.targets[first.target].n_made() : 1;
    for (std::uint32_t i = 1; i < n_made; ++i) {
        const Index strip = plan.strip_elements(slice.tensor + i);
        const Index begin = slice.begin / plan.strip_elements(slice.tensor) * strip;
        made.push_back({slice.tensor + i, begin,
                        std::min(begin + strip, plan.tensor(slice.tensor + i).volume()),
                        made.back().output_begin + plan.bytes_of(made.back())});
    }
    return made;
}

OutputRange range_of(const Plan& plan, const Slice& slice) {
    const Slice last = made_with(plan, slice).back();
    return {slice.output_begin, last.output_begin + plan.bytes_of(last)};
}

void for_each_slice(const Plan& plan, OutputRange range,
                    const std::function<void(const Slice&)>& visit) {
    for_each_work(plan, range, [&](const Slice& work) {
        if (plan.target_of(work.tensor).n_made() == 1) {
            visit(work);  // it is cut already
            return;
        }
        for (const Slice& slice : made_with(plan, work)) {
            if (meet(plan, range, slice)) {
                visit(cut_to(plan, range, slice));
            }
        }
    });
}

std::vector<Slice> slices_of(const Plan& plan, OutputRange range) {
    std::vector<Slice> slices;
    for_each_slice(plan, range, [&](const Slice& slice) { slices.push_back(slice); });
    return slices;
}

}  // namespace shardweld::plan

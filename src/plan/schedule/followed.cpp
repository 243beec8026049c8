#include "shardweld/plan/followed.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <unordered_map>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::plan {

namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::string text_of(const Operand& operand) {
    return std::to_string(operand.file) + " " + std::to_string(operand.base) + " " +
           std::to_string(operand.term) + " " + layout::to_text(operand.copy);
}

/// The same elements in the same order, one of which a file holds.
bool are_alike(const Target& a, const Target& b) {
    return a.stored == b.stored &&
           std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                      [](const Operand& x, const Operand& y) {
                          return std::tie(x.file, x.base, x.term, x.copy) ==
                                 std::tie(y.file, y.base, y.term, y.copy);
                      });
}

/// By the leader's target: the own one that is made of the same; kNone where there is none.
std::vector<std::uint32_t> matched(const std::vector<Target>& leader,
                                   const std::vector<Target>& own) {
    std::unordered_multimap<std::string, std::uint32_t> left;
    for (std::uint32_t i = 0; i < leader.size(); ++i) {
        if (!leader[i].operands.empty()) {
            left.emplace(text_of(leader[i].operands.front()), i);
        }
    }
    std::vector<std::uint32_t> own_of(leader.size(), kNone);
    for (std::uint32_t i = 0; i < own.size(); ++i) {
        if (own[i].operands.empty()) {
            continue;
        }
        const auto [first, last] = left.equal_range(text_of(own[i].operands.front()));
        const auto found = std::find_if(first, last, [&](const auto& entry) {
            return are_alike(leader[entry.second], own[i]);
        });
        if (found == last) {
            throw Error(ErrorCode::unsupported,
                        "tensor " + printable(own[i].name) +
                            " is made of other elements than those of the first output's tensors, "
                            "or of the same in another order",
                        "write that model by a merge of its own");
        }
        own_of[found->second] = i;
        left.erase(found);
    }
    return own_of;
}

/// Elements of the weight before a place in a target: codes are many to one.
Index weight_at(const Target& target, Index element) {
    const auto& how = target.quantised;
    return target.holds_codes() ? element / how->row_elements() * how->n_columns : element;
}

Index element_at(const Target& target, Index weight) {
    const auto& how = target.quantised;
    return target.holds_codes() ? weight / how->n_columns * how->row_elements() : weight;
}

/// Where a target's elements [0, element) end on the line, counted from its begin; between strips.
Bytes bytes_before(const Plan& plan, std::uint32_t target, Index element, Bytes whole) {
    const Target& one = plan.targets[target];
    if (element >= one.volume()) {
        return whole;
    }
    const Index strip = one.strip_elements();
    return strip > 0 ? static_cast<Bytes>(element / strip) * strip_of(plan, target).both()
                     : static_cast<Bytes>(element) * size_of(one.dtype);
}

/// The elements that lie wholly in a part of a target's item, whole strips where it has them.
layout::Range elements_within(const Plan& plan, std::uint32_t target, LineRange part, Bytes whole) {
    const Target& one = plan.targets[target];
    const Index strip = one.strip_elements();
    const Bytes unit = strip > 0 ? strip_of(plan, target).both() : size_of(one.dtype);
    const Index step = strip > 0 ? strip : 1;
    const auto begin = static_cast<Index>((part.begin + unit - 1) / unit) * step;
    const Index end = part.end >= whole ? one.volume() : static_cast<Index>(part.end / unit) * step;
    return {std::min(begin, end), std::max<Index>(0, end - begin)};
}

/// The same, of a range, inside whole strips.
layout::Range whole_strips(const Target& target, layout::Range range) {
    const Index strip = std::max<Index>(target.strip_elements(), 1);
    const Index begin = (range.lo + strip - 1) / strip * strip;
    const Index hi = range.lo + range.extent;
    const Index end = hi >= target.volume() ? target.volume() : hi / strip * strip;
    return {begin, std::max<Index>(0, end - begin)};
}

}  // namespace

void lead(std::vector<Target>& leader, const std::vector<Target>& own) {
    const auto own_of = matched(leader, own);
    for (std::size_t i = 0; i < leader.size(); ++i) {
        const Index strip = own_of[i] == kNone ? 0 : own[own_of[i]].strip_elements();
        if (strip == 0) {
            continue;
        }
        const Index weight = weight_at(own[own_of[i]], strip);
        if (leader[i].strip_elements() == 0) {
            leader[i].strip = weight;
        }
        if (weight_at(leader[i], leader[i].strip_elements()) != weight) {
            throw Error(ErrorCode::internal, "strips of " + leader[i].name + " have two sizes");
        }
    }
}

Followed::Followed(const Plan& leader, const Plan& own)
    : leader_(leader),
      own_(own),
      own_of_(matched(leader.targets, own.targets)),
      items_(own.targets.size()) {
    for (std::size_t at = 0; at < own.line.order.size(); ++at) {
        const std::uint32_t target = own.line.order[at];
        items_[target] = {own.line.begins[at], own.line.begins[at + 1]};
        if (!own.targets[target].literal.empty()) {
            alone_.push_back(items_[target]);
        }
    }
}

LineRange Followed::line_of(const Slice& slice) const {
    const std::uint32_t own = own_of_[slice.target];
    if (own == kNone) {
        return {};
    }
    const LineRange item = items_[own];
    const auto place = [&](Index element) {
        const Index weight = weight_at(leader_.targets[slice.target], element);
        return item.begin + bytes_before(own_, own, element_at(own_.targets[own], weight),
                                         item.end - item.begin);
    };
    return {place(slice.begin), place(slice.end)};
}

/// Of the leader's item `at`, for a part of the own item that is done.
LineRange Followed::done_of(std::size_t at, LineRange done) const {
    const std::uint32_t target = leader_.line.order[at];
    const Target& leading = leader_.targets[target];
    const std::uint32_t own = own_of_[target];
    const LineRange item = items_[own];
    const auto there = elements_within(own_, own, {done.begin - item.begin, done.end - item.begin},
                                       item.end - item.begin);
    const Index lo = weight_at(own_.targets[own], there.lo);
    const Index hi = weight_at(own_.targets[own], there.lo + there.extent);
    const Index first = element_at(leading, lo);
    const auto here = whole_strips(leading, {first, element_at(leading, hi) - first});
    const Bytes begin = leader_.line.begins[at];
    const Bytes whole = leader_.line.begins[at + 1] - begin;
    return {begin + bytes_before(leader_, target, here.lo, whole),
            begin + bytes_before(leader_, target, here.lo + here.extent, whole)};
}

std::vector<LineRange> Followed::done_of_leader(std::span<const LineRange> done) const {
    std::vector<LineRange> parts;
    for (std::size_t at = 0; at < leader_.line.order.size(); ++at) {
        const std::uint32_t own = own_of_[leader_.line.order[at]];
        if (own == kNone) {
            parts.push_back({leader_.line.begins[at], leader_.line.begins[at + 1]});
            continue;
        }
        const auto first = std::partition_point(
            done.begin(), done.end(),
            [&](const LineRange& range) { return range.end <= items_[own].begin; });
        for (auto range = first; range != done.end() && range->begin < items_[own].end; ++range) {
            parts.push_back(done_of(at, {std::max(range->begin, items_[own].begin),
                                         std::min(range->end, items_[own].end)}));
        }
    }
    return united(std::move(parts));
}

}  // namespace shardweld::plan

#include "derived_output.hpp"

#include <algorithm>

namespace shardweld::plan {

namespace {

/// Elements of the weight before a place in a target: codes are many to one.
Index weight_at(const Target& target, Index element) {
    const auto& how = target.encode;
    return how ? element / how->row_codes() * how->n_columns : element;
}

Index element_at(const Target& target, Index weight) {
    const auto& how = target.encode;
    return how ? weight / how->n_columns * how->row_codes() : weight;
}

/// Where a target's elements [0, element) end in the output space, counted from its begin; between
/// strips.
Bytes bytes_before(const Target& target, Index element, Bytes whole) {
    if (element >= target.volume()) {
        return whole;
    }
    const Index strip = target.strip_elements();
    return strip > 0 ? static_cast<Bytes>(element / strip) * target.strip_bytes()
                     : static_cast<Bytes>(element) * size_of(target.dtype);
}

/// The elements that lie wholly in a part of a target's item, whole strips where it has them.
layout::Range elements_within(const Target& target, OutputRange part, Bytes whole) {
    const Index strip = target.strip_elements();
    const Bytes unit = strip > 0 ? target.strip_bytes() : size_of(target.dtype);
    const Index step = strip > 0 ? strip : 1;
    const auto begin = static_cast<Index>((part.begin + unit - 1) / unit) * step;
    const Index end =
        part.end >= whole ? target.volume() : static_cast<Index>(part.end / unit) * step;
    return {std::min(begin, end), std::max<Index>(0, end - begin)};
}

/// A range, widened to whole strips.
layout::Range whole_strips(const Target& target, layout::Range range) {
    const Index strip = std::max<Index>(target.strip_elements(), 1);
    const Index begin = (range.lo + strip - 1) / strip * strip;
    const Index hi = range.lo + range.extent;
    const Index end = hi >= target.volume() ? target.volume() : hi / strip * strip;
    return {begin, std::max<Index>(0, end - begin)};
}

}  // namespace

DerivedOutput::DerivedOutput(const Plan& primary, const Plan& own)
    : primary_(primary),
      own_(own),
      relations_(relations_of(primary.targets, own.targets)),
      items_(own.targets.size()) {
    std::ranges::stable_sort(relations_, {}, &OutputMapping::primary);
    for (const std::size_t at : indices(own.space.order)) {
        const std::uint32_t tensor = own.space.order[at];
        const OutputRange item{own.space.begins[at], own.space.begins[at + 1]};
        if (own.is_constant(tensor)) {
            constants_.push_back(item);
        } else {
            items_[own.tensors[tensor].target] = item;
        }
    }
}

std::span<const OutputMapping> DerivedOutput::of(std::uint32_t tensor) const {
    if (primary_.is_constant(tensor)) {
        return {};
    }
    const std::uint32_t primary = primary_.tensors[tensor].target;
    return {std::ranges::lower_bound(relations_, primary, {}, &OutputMapping::primary),
            std::ranges::upper_bound(relations_, primary, {}, &OutputMapping::primary)};
}

OutputRange DerivedOutput::range_of(const OutputMapping& relation, const Slice& slice) const {
    const OutputRange item = items_[relation.own];
    const Target& primary_target = primary_.targets[relation.primary];
    const Target& own = own_.targets[relation.own];
    const auto place = [&](Index element) {
        const Index n_units = weight_at(primary_target, element) / relation.unit;
        const Index volume = element == primary_target.volume()
                                 ? relation.volume
                                 : std::min(n_units * relation.own_unit, relation.volume);
        return item.begin +
               bytes_before(own, element_at(own, relation.first + volume), item.end - item.begin);
    };
    return {place(slice.begin), place(slice.end)};
}

/// What is done of the primary output's item `at` when a part of the own item is done.
OutputRange DerivedOutput::done_of(std::size_t at, const OutputMapping& relation,
                                   OutputRange done) const {
    const Target& primary_target = primary_.targets[relation.primary];
    const Target& own = own_.targets[relation.own];
    const OutputRange item = items_[relation.own];
    const auto there = elements_within(own, {done.begin - item.begin, done.end - item.begin},
                                       item.end - item.begin);
    const auto in_relation = [&](Index element) {
        return std::clamp<Index>(weight_at(own, element) - relation.first, 0, relation.volume);
    };
    const Index lo = in_relation(there.lo);
    const Index hi = in_relation(there.lo + there.extent);
    const Index first = (lo + relation.own_unit - 1) / relation.own_unit * relation.unit;
    const Index last = hi == relation.volume ? weight_volume(primary_target)
                                             : hi / relation.own_unit * relation.unit;
    const Index begin = element_at(primary_target, first);
    const auto here =
        whole_strips(primary_target, {begin, element_at(primary_target, last) - begin});
    const Bytes item_begin = primary_.space.begins[at];
    const Bytes whole = primary_.space.begins[at + 1] - item_begin;
    return {item_begin + bytes_before(primary_target, here.lo, whole),
            item_begin + bytes_before(primary_target, here.lo + here.extent, whole)};
}

std::vector<OutputRange> DerivedOutput::done_for(std::size_t at, const OutputMapping& relation,
                                                 std::span<const OutputRange> done) const {
    const OutputRange item = items_[relation.own];
    std::vector<OutputRange> parts;
    const auto first =
        std::partition_point(done.begin(), done.end(),
                             [&](const OutputRange& range) { return range.end <= item.begin; });
    for (auto range = first; range != done.end() && range->begin < item.end; ++range) {
        parts.push_back(done_of(
            at, relation, {std::max(range->begin, item.begin), std::min(range->end, item.end)}));
    }
    return united(std::move(parts));
}

std::vector<OutputRange> DerivedOutput::done_of_primary(std::span<const OutputRange> done) const {
    std::vector<OutputRange> parts;
    for (const std::size_t at : indices(primary_.space.order)) {
        std::vector<std::vector<OutputRange>> lists = collect_list(
            of(primary_.space.order[at]),
            [&](const OutputMapping& relation) { return done_for(at, relation, done); });
        const auto all = in_all({primary_.space.begins[at], primary_.space.begins[at + 1]}, lists);
        append_all(parts, all);
    }
    return united(std::move(parts));
}

}  // namespace shardweld::plan

#include "relation.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/text.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

/// By LogicalPatch::segment: the primary output's targets that hold elements of it.
using Holders =
    std::unordered_map<std::string, std::vector<std::pair<std::uint32_t, const layout::Patch*>>>;

Holders holders_of(const std::vector<Target>& primary) {
    Holders holders;
    for (std::uint32_t i = 0; i < primary.size(); ++i) {
        for (const LogicalPatch& held : primary[i].logical_patches) {
            holders[held.segment].emplace_back(i, &held.patch);
        }
    }
    return holders;
}

/// Whether whole units of the primary output become whole own ones in the same order.
bool keeps_order(const OutputMapping& relation, Index unit, Index own_unit) {
    return std::ranges::all_of(relation.copies, [&](const layout::Copy& copy) {
        const Index to = copy.dst_offset - relation.first;
        Index src = copy.src_offset % unit;
        Index dst = to % own_unit;
        for (const layout::Loop& loop : copy.loops) {
            const bool counts_units = loop.src_stride % unit == 0 &&
                                      loop.dst_stride % own_unit == 0 &&
                                      loop.src_stride / unit == loop.dst_stride / own_unit;
            src += counts_units ? 0 : (loop.extent - 1) * loop.src_stride;
            dst += counts_units ? 0 : (loop.extent - 1) * loop.dst_stride;
        }
        return copy.src_offset / unit == to / own_unit && src < unit && dst < own_unit;
    });
}

/// The smallest units; the whole target is one at last.
void find_units(OutputMapping& relation, Index primary_volume) {
    std::vector<std::pair<Index, Index>> units{{1, 1}, {primary_volume, relation.volume}};
    for (const layout::Copy& copy : relation.copies) {
        for (const layout::Loop& loop : copy.loops) {
            units.emplace_back(std::max<Index>(loop.src_stride, 1), loop.dst_stride);
        }
    }
    std::ranges::sort(units);
    auto* const found = find_where(units, [&](const auto& unit) {
        return relation.volume % unit.second == 0 && keeps_order(relation, unit.first, unit.second);
    });
    std::tie(relation.unit, relation.own_unit) = found == nullptr ? units.back() : *found;
}

/// Whether the relation's own elements have no others among them.
bool find_place(OutputMapping& relation) {
    Index end = 0;
    relation.first = layout::dst_span(relation.copies.front()).lo;
    for (const layout::Copy& copy : relation.copies) {
        const layout::Range span = layout::dst_span(copy);
        relation.first = std::min(relation.first, span.lo);
        relation.volume += copy.volume();
        end = std::max(end, span.lo + span.extent);
    }
    return end - relation.first == relation.volume;
}

/// What a target has in common with those of the primary output, by the latter.
std::map<std::uint32_t, OutputMapping> common_parts(const Holders& holders, const Target& own) {
    std::map<std::uint32_t, OutputMapping> found;
    for (const LogicalPatch& wanted : own.logical_patches) {
        auto* const held = find_value(holders, wanted.segment);
        if (held == nullptr) {
            continue;
        }
        for (const auto& [primary, patch] : *held) {
            if (const auto copy = layout::overlap(*patch, wanted.patch)) {
                found[primary].copies.push_back(*copy);
            }
        }
    }
    return found;
}

Index tile_elements(const Encode& encode) {
    return facts_of(encode.encoding).tile_rows * encode.n_columns;
}

/// The largest strip of whole units, about a megabyte of bf16; where it is to divide the target, it
/// does so if units do.
Index strip_of_units(Index unit, Index volume, bool divides) {
    const Index most = strip_rows_of(unit, 1) / unit;
    if (!divides || volume % unit != 0) {
        return most * unit;
    }
    Index count = std::min(most, volume / unit);
    while (volume / unit % count != 0) {
        --count;
    }
    return count * unit;
}

void set_strip(Target& target, Index elements) {
    if (target.encode) {
        target.encode->strip_rows = elements / target.encode->n_columns;
    } else {
        target.strip = elements;
    }
}

/// What decides the strips of one target of the primary output.
struct StripNeeds {
    Index unit = 0;           ///< is never divided; 0: it needs no strips
    bool is_stacked = false;  ///< some output has it in a tensor with others
};

void add_strip_needs(const OutputMapping& relation, const Target& own, StripNeeds& needs) {
    if (!own.encode) {
        return;
    }
    const Index own_unit = std::lcm(relation.own_unit, tile_elements(*own.encode));
    const Index unit = own_unit / relation.own_unit * relation.unit;
    needs.unit = needs.unit == 0 ? unit : std::lcm(needs.unit, unit);
    needs.is_stacked = needs.is_stacked || relation.volume < weight_volume(own);
}

/// Gives own targets of codes strips that those of the primary output, `primary_strips`, are whole
/// multiples of.
void follow(const std::vector<OutputMapping>& relations, const std::vector<Index>& primary_strips,
            std::vector<Target>& own) {
    std::map<std::uint32_t, Index> strips;
    for (const OutputMapping& relation : relations) {
        if (!own[relation.own].encode) {
            continue;
        }
        const Index image = primary_strips[relation.primary] / relation.unit * relation.own_unit;
        Index& strip = strips[relation.own];
        strip = relation.volume == weight_volume(own[relation.own])
                    ? image
                    : std::gcd(std::gcd(strip, image), std::gcd(relation.first, relation.volume));
    }
    for (const auto& [at, strip] : strips) {
        set_strip(own[at], strip);
    }
}

}  // namespace

Index weight_volume(const Target& target) {
    return target.sources(0, target.volume()).extent;
}

std::vector<OutputMapping> relations_of(const std::vector<Target>& primary,
                                        const std::vector<Target>& own) {
    const Holders holders = holders_of(primary);
    std::vector<OutputMapping> relations;
    for (std::uint32_t i = 0; i < own.size(); ++i) {
        Index volume = 0;
        bool is_there = true;
        for (auto& [at, relation] : common_parts(holders, own[i])) {
            relation.primary = at;
            relation.own = i;
            is_there = find_place(relation) && primary[at].stored == own[i].stored && is_there;
            find_units(relation, weight_volume(primary[at]));
            volume += relation.volume;
            relations.push_back(std::move(relation));
        }
        if (!is_there || volume != weight_volume(own[i])) {
            throw Error(ErrorCode::unsupported,
                        "tensor " + printable(own[i].name.text()) +
                            " is made of other elements than those of the first output's tensors, "
                            "or of the same in another order",
                        "write that model by a merge of its own");
        }
    }
    return relations;
}

void share_strips(std::vector<Target>& primary, const std::vector<std::vector<Target>*>& others) {
    std::vector<StripNeeds> needs(primary.size());
    for (const std::size_t i : indices(primary)) {
        needs[i].unit = primary[i].encode ? tile_elements(*primary[i].encode) : 0;
    }
    std::vector<std::vector<OutputMapping>> relations;
    for (const std::vector<Target>* const other : others) {
        for (const OutputMapping& relation :
             relations.emplace_back(relations_of(primary, *other))) {
            add_strip_needs(relation, (*other)[relation.own], needs[relation.primary]);
        }
    }
    std::vector<Index> strips(primary.size());
    for (const std::size_t i : indices(primary)) {
        if (needs[i].unit > 0) {
            strips[i] =
                strip_of_units(needs[i].unit, weight_volume(primary[i]), needs[i].is_stacked);
            set_strip(primary[i], strips[i]);
        }
    }
    for (const std::size_t at : indices(others)) {
        follow(relations[at], strips, *others[at]);
    }
}

}  // namespace shardweld::plan

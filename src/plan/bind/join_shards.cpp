#include "join_shards.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"

#include "mismatches.hpp"

namespace shardweld::plan {

using catalogue::Catalogue;
using catalogue::Piece;
using catalogue::Shard;
using catalogue::Tensor;
using models::Join;
using models::JoinStep;

namespace {

/// Fact of a catalogue whose device mesh was given by hand.
inline constexpr const char* kMeshFact = "mesh_by_hand";

/// All shards of one global name, and the line that takes them (null: none).
struct ShardGroup {
    const models::Line* line = nullptr;
    models::Captures captures;
    std::vector<const catalogue::Shard*> shards;
};

/// A parallel group: the fact that states its size, its name for people, and a rank's place in it.
struct GroupFacts {
    const char* fact;
    const char* name;
    int catalogue::Coordinates::*rank;
};

const GroupFacts& facts_of(JoinStep::Group group) {
    using catalogue::Coordinates;
    static constexpr std::array<GroupFacts, 4> kGroups{{
        // in the order of the enumeration
        {"tp", "tensor-parallel", &Coordinates::tp},
        {"etp", "expert-tensor-parallel", &Coordinates::etp},
        {"ep", "expert-parallel", &Coordinates::ep},
        {"fsdp", "data-parallel", &Coordinates::fsdp},
    }};
    return kGroups[static_cast<std::size_t>(group)];
}

/// Ranks of a parallel group, as the catalogue's facts say; 1 if they do not.
Index group_size(const Catalogue& catalogue, JoinStep::Group group) {
    return copy_or(find_value(catalogue.facts, facts_of(group).fact), 1);
}

/// The shard's rank in a group.
int rank_in(const Shard& shard, JoinStep::Group group) {
    return shard.at.*facts_of(group).rank;
}

std::string place_of(const Shard& shard, const Catalogue& catalogue) {
    return "file " + catalogue.files[shard.piece.file].path;
}

/// The whole tensor's shape, as the line's layout implies it. Requires a line.
std::vector<Index> full_shape(const ShardGroup& group, const Model& model) {
    return layout::BoundLayout::bind(
               group.line->layout,
               [&](const std::string& axis) { return model.symbols->value(axis, group.captures); })
        .shape();
}

/// The global shape that steps would give, looking at extents only; nullopt when a dim is not
/// there.
std::optional<std::vector<Index>> shape_after(const ShardGroup& group,
                                              const std::vector<JoinStep>& steps, Index n_tp) {
    const std::vector<Index>& local = group.shards.front()->shape;
    const bool is_same = std::ranges::all_of(
        group.shards, [&](const Shard* shard) { return shard->shape == local; });
    if (steps.empty() && !is_same) {
        return std::nullopt;  // replicas have one shape: a row on one rank and none on another
    }
    std::vector<Index> shape = local;
    for (const JoinStep& step : steps) {
        const auto dim = static_cast<std::size_t>(step.dim);
        if (dim >= shape.size()) {
            return std::nullopt;
        }
        if (step.group == JoinStep::Group::tp) {
            shape[dim] = checked_mul(shape[dim], n_tp, group.shards.front()->name);
            continue;
        }
        std::map<int, Index> extents;
        for (const Shard* shard : group.shards) {
            if (shard->shape.size() != local.size()) {
                return std::nullopt;
            }
            extents[rank_in(*shard, step.group)] = shard->shape[dim];
        }
        Index sum = 0;
        for (const auto& [rank, extent] : extents) {
            sum = checked_add(sum, extent, group.shards.front()->name);
        }
        shape[dim] = sum;
    }
    return shape;
}

/// Ways in which plain tensors may be sharded: data-parallel ranks cut dim 0, tensor-parallel ones
/// any dim (and are cut again by data-parallel ones).
std::vector<std::vector<JoinStep>> candidates(std::size_t n_dims, const Catalogue& catalogue) {
    std::vector<std::vector<JoinStep>> all{{}};
    const JoinStep fsdp{JoinStep::Group::fsdp, 0, false, false};
    const bool has_fsdp = group_size(catalogue, fsdp.group) > 1;
    if (has_fsdp) {
        all.push_back({fsdp});
    }
    for (std::size_t dim = 0; dim < n_dims && group_size(catalogue, JoinStep::Group::tp) > 1;
         ++dim) {
        const JoinStep tp{JoinStep::Group::tp, static_cast<int>(dim), false, false};
        all.push_back({tp});
        if (has_fsdp) {
            all.push_back({fsdp, tp});
        }
    }
    return all;
}

/// The steps that lead from the shards' shapes to the one the layout implies.
Join join_by_shape(const std::string& name, const ShardGroup& group, const Model& model,
                   const Catalogue& catalogue) {
    const std::vector<Index> wanted = full_shape(group, model);
    const Shard& first = *group.shards.front();
    std::vector<std::vector<JoinStep>> fitting;
    for (std::vector<JoinStep>& steps : candidates(first.shape.size(), catalogue)) {
        if (shape_after(group, steps, group_size(catalogue, JoinStep::Group::tp)) == wanted) {
            fitting.push_back(std::move(steps));
        }
    }
    // Replicas first: a mesh dim of one rank fits in either way.
    if (!fitting.empty() && (fitting.front().empty() || fitting.size() == 1)) {
        Join join;
        join.steps = std::move(fitting.front());
        return join;
    }
    throw Error(
        ErrorCode::mismatch,
        name + " has shape " + shape_text(first.shape) + " in " + place_of(first, catalogue) +
            ", but config.json implies " + shape_text(wanted) +
            (fitting.empty() ? ", to which the ranks' parts do not add up"
                             : ", to which they add up in several ways"),
        "check config.json, or state the device mesh with --mesh_dim_names and --mesh_shape");
}

/// How a group is joined: as its line says; without one, as a mesh given by hand says, else the
/// shards are taken for replicas. Error(mismatch) when the shards do not make up the shape that
/// the line's layout implies, or do so in several ways.
Join join_of(const std::string& name, const ShardGroup& group, const Model& model,
             const Catalogue& catalogue) {
    if (group.line != nullptr) {
        const Join join = group.line->join.value_or(Join{});
        return join.by_shape ? join_by_shape(name, group, model, catalogue) : join;
    }
    Join join;
    if (catalogue.facts.contains(kMeshFact) && !group.shards.front()->shape.empty() &&
        group_size(catalogue, JoinStep::Group::fsdp) > 1) {
        join.steps.push_back({JoinStep::Group::fsdp, 0, false, false});
    }
    return join;
}

/// The axes that count experts: a layer may have two kinds. Their captures in rank-local names
/// count within one expert-parallel rank.
constexpr std::array<std::string_view, 2> kExpertAxes = {"e", "ev"};

/// A shard's local shape and patch while steps turn them into global ones.
struct PlacedShard {
    const Shard* shard = nullptr;
    std::vector<Index> shape;
    layout::Patch patch;
    Index ranks = 0;  ///< in the groups of the steps taken so far; equal ones are replicas
};

PlacedShard start(const Shard& shard, const Join& join) {
    PlacedShard placed{&shard, shard.shape, shard.piece.patch};
    if (!join.flat) {
        return placed;
    }
    const Index volume = volume_of(shard.shape, shard.name);
    if (placed.patch != layout::dense_shape(shard.shape, placed.patch.offset)) {
        throw Error(ErrorCode::unsupported,
                    "the shard of " + shard.name.text() +
                        " is a strided view, which its layout does not allow");
    }
    placed.shape = {volume};
    placed.patch = layout::dense_shape(placed.shape, placed.patch.offset);
    return placed;
}

[[noreturn]] void refuse_shapes(const PlacedShard& a, const PlacedShard& b,
                                const Catalogue& catalogue) {
    throw Error(ErrorCode::mismatch,
                a.shard->name.text() + " has shape " + shape_text(a.shard->shape) + " in " +
                    place_of(*a.shard, catalogue) + " but " + shape_text(b.shard->shape) + " in " +
                    place_of(*b.shard, catalogue),
                "copy all files from one save: these are of several");
}

/// Position of each rank of a group along the joined dim: starts[r], starts.back() = the global
/// extent.
std::vector<Index> starts_along(const std::vector<PlacedShard>& all, const JoinStep& step,
                                Index n_ranks, const Catalogue& catalogue) {
    const auto dim = static_cast<std::size_t>(step.dim);
    std::vector<const PlacedShard*> holder(static_cast<std::size_t>(n_ranks), nullptr);
    for (const PlacedShard& placed : all) {
        const PlacedShard*& seen =
            holder[static_cast<std::size_t>(rank_in(*placed.shard, step.group))];
        if (seen != nullptr && seen->shape[dim] != placed.shape[dim]) {
            refuse_shapes(*seen, placed, catalogue);
        }
        seen = &placed;
    }
    std::vector<Index> starts{0};
    for (Index rank = 0; rank < n_ranks; ++rank) {
        const PlacedShard* placed = holder[static_cast<std::size_t>(rank)];
        if (placed == nullptr) {
            throw Error(ErrorCode::not_found,
                        all.front().shard->name.text() + " has no shard of " +
                            std::string(facts_of(step.group).name) + " rank " +
                            std::to_string(rank) + " (of " + std::to_string(n_ranks) + ")",
                        "copy that rank's file again: it lacks the tensor")
                .add_context("found in " + place_of(*all.front().shard, catalogue));
        }
        // Parts of parallel layers are equal; a data-parallel cut leaves shorter last ones.
        if (step.group != JoinStep::Group::fsdp &&
            placed->shape[dim] != holder.front()->shape[dim]) {
            refuse_shapes(*holder.front(), *placed, catalogue);
        }
        starts.push_back(checked_add(starts.back(), placed->shape[dim], placed->shard->name));
    }
    return starts;
}

void take_step(std::vector<PlacedShard>& all, const JoinStep& step, const Catalogue& catalogue) {
    const Index n_ranks = group_size(catalogue, step.group);
    const auto dim = static_cast<std::size_t>(step.dim);
    for (const PlacedShard& placed : all) {
        const int rank = rank_in(*placed.shard, step.group);
        if (rank < 0 || rank >= n_ranks || (!step.stack && dim >= placed.shape.size())) {
            throw Error(ErrorCode::mismatch, "the shard of " + placed.shard->name.text() +
                                                 " with shape " + shape_text(placed.shape) +
                                                 " cannot be rank " + std::to_string(rank) +
                                                 " of " + std::to_string(n_ranks) + " in its " +
                                                 std::string(facts_of(step.group).name) + " group")
                .add_context(place_of(*placed.shard, catalogue));
        }
    }
    const std::vector<Index> starts =
        step.stack ? std::vector<Index>{} : starts_along(all, step, n_ranks, catalogue);
    for (PlacedShard& placed : all) {
        const int rank = rank_in(*placed.shard, step.group);
        placed.ranks = placed.ranks * n_ranks + rank;
        if (step.stack) {
            placed.patch = layout::embed(placed.patch, 0, rank);
            placed.shape.insert(placed.shape.begin(), n_ranks);
        } else {
            placed.patch.axes[dim].lo += starts[static_cast<std::size_t>(rank)];
            placed.shape[dim] = starts.back();
        }
    }
}

/// Whether a `k?` step means replicas here: the local extent already is the full one.
bool is_whole(const PlacedShard& placed, const JoinStep& step, const ShardGroup& group,
              const Model& model) {
    if (!step.or_replica) {
        return false;
    }
    const std::vector<Index> full = full_shape(group, model);
    const auto dim = static_cast<std::size_t>(step.dim);
    return dim < full.size() && dim < placed.shape.size() && placed.shape[dim] == full[dim];
}

/// Every combination of ranks of the steps' groups must be there; a lower count names the gap.
void check_complete(const std::vector<PlacedShard>& all, std::size_t n_primary, Index expected,
                    const Catalogue& catalogue) {
    if (static_cast<Index>(n_primary) != expected) {
        std::vector<std::string> places = collect_list(
            all, [&](const PlacedShard& placed) { return place_of(*placed.shard, catalogue); });
        throw Error(ErrorCode::not_found,
                    all.front().shard->name.text() + " has shards of " + std::to_string(n_primary) +
                        " ranks where " + std::to_string(expected) + " are needed: it is in " +
                        listed(places),
                    "the other ranks' files lack it: copy those again, or take an earlier save");
    }
}

Tensor join_group(const std::string& name, const ShardGroup& group, const Model& model,
                  const Catalogue& catalogue) {
    const Join join = join_of(name, group, model, catalogue);
    std::vector<PlacedShard> all;
    all.reserve(group.shards.size());
    for (const Shard* shard : group.shards) {
        if (shard->dtype != group.shards.front()->dtype) {
            throw Error(ErrorCode::mismatch,
                        name + " is " + safetensors_name(group.shards.front()->dtype) + " in " +
                            place_of(*group.shards.front(), catalogue) + " but " +
                            safetensors_name(shard->dtype) + " in " + place_of(*shard, catalogue),
                        "copy all files from one save: these are of several");
        }
        all.push_back(start(*shard, join));
    }
    Index expected = 1;
    for (const JoinStep& step : join.steps) {
        if (!is_whole(all.front(), step, group, model)) {
            take_step(all, step, catalogue);
            expected = checked_mul(expected, group_size(catalogue, step.group), name);
        }
    }
    Tensor tensor{name, group.shards.front()->dtype, all.front().shape, {}};
    tensor.pieces.reserve(all.size());
    std::map<Index, std::uint32_t> copies;
    for (PlacedShard& placed : all) {
        if (placed.shape != tensor.shape) {
            refuse_shapes(all.front(), placed, catalogue);
        }
        const Piece& piece = placed.shard->piece;
        tensor.pieces.push_back({piece.file, copies[placed.ranks]++, piece.base,
                                 piece.storage_bytes, std::move(placed.patch), piece.crc32,
                                 piece.located});
    }
    check_complete(all, copies.size(), expected, catalogue);
    return tensor;
}

/// The shard's name with its expert number made global: local experts follow those of lower
/// expert-parallel ranks.
std::string global_name(const Shard& shard, const StoreMatch& match, const Catalogue& catalogue,
                        const Model& model) {
    const auto expert = std::ranges::find_if(match.captures, [](const auto& capture) {
        return std::ranges::count(kExpertAxes, capture.first) > 0;
    });
    if (expert == match.captures.end()) {
        return shard.name.text();
    }
    const Index n_experts = model.symbols->value(expert->first);
    const Index n_ranks = group_size(catalogue, JoinStep::Group::ep);
    if (n_experts % n_ranks != 0 || expert->second >= n_experts / n_ranks) {
        throw Error(ErrorCode::mismatch,
                    shard.name.text() + ": expert " + std::to_string(expert->second) +
                        " on an expert-parallel rank, but config.json's " +
                        std::to_string(n_experts) + " experts over " + std::to_string(n_ranks) +
                        " ranks leave fewer on each",
                    kConfigHint)
            .add_context(place_of(shard, catalogue));
    }
    const models::Pattern& pattern = match.line->name;
    std::string name = pattern.literals.front();
    for (const std::size_t i : indices(pattern.captures)) {
        const Index value = match.captures.at(pattern.captures[i]);
        name += std::to_string(pattern.captures[i] == expert->first
                                   ? value + shard.at.ep * (n_experts / n_ranks)
                                   : value);
        name += pattern.literals[i + 1];
    }
    return name;
}

/// The shards under their global names. Thousands of ranks repeat the same local names: each is
/// matched once for all of them, and made global once for each expert-parallel rank.
std::map<std::string, ShardGroup> groups_of(const Catalogue& catalogue, const Model& model,
                                            const StoreMatcher& matcher) {
    struct MatchedName {
        std::optional<StoreMatch> match;
        std::unordered_map<int, ShardGroup*> by_expert_rank;
    };
    std::map<std::string, ShardGroup> groups;
    std::map<std::size_t, std::unordered_map<SharedText, MatchedName>> known;  // by number of dims
    for (const Shard& shard : catalogue.shards) {
        const auto [at, is_new] = known[shard.shape.size()].try_emplace(shard.name);
        MatchedName& name = at->second;
        if (is_new) {
            name.match = matcher.find(shard.name, shard.shape.size());
        }
        ShardGroup*& group = name.by_expert_rank[shard.at.ep];
        if (group == nullptr) {
            group = &groups[name.match ? global_name(shard, *name.match, catalogue, model)
                                       : shard.name.text()];
            if (name.match) {
                group->line = name.match->line;
                group->captures = name.match->captures;
            }
        }
        group->shards.push_back(&shard);
    }
    return groups;
}

}  // namespace

JoinedShards join_shards(const Catalogue& catalogue, const Model& model,
                         const StoreMatcher& matcher) {
    std::map<std::string, ShardGroup> groups = groups_of(catalogue, model, matcher);
    JoinedShards joined;
    joined.tensors.reserve(groups.size());
    const auto is_lower = [](const Shard* a, const Shard* b) {
        return std::tie(a->at, a->piece.file) < std::tie(b->at, b->piece.file);
    };
    for (auto& [name, group] : groups) {
        // The primary copy is the one with the lowest coordinates: the same on every rank of the
        // run. Files mostly come in that order.
        if (!std::ranges::is_sorted(group.shards, is_lower)) {
            std::ranges::stable_sort(group.shards, is_lower);
        }
        joined.tensors.push_back(join_group(name, group, model, catalogue));
        if (group.line == nullptr && group.shards.size() > 1) {
            joined.presumed.insert(name);
        }
    }
    return joined;
}

}  // namespace shardweld::plan

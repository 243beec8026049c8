#include "join_choice.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"

namespace shardweld::plan {

using catalogue::Catalogue;
using catalogue::Shard;
using models::Join;
using models::JoinStep;

namespace {

/// The global shape that steps would give, looking at extents only; nullopt when a dim is not
/// there.
std::optional<std::vector<Index>> shape_after(const ShardGroup& group,
                                              const std::vector<JoinStep>& steps, Index n_tp) {
    const std::vector<Index>& local = group.shards.front()->shape;
    const bool is_same = std::all_of(group.shards.begin(), group.shards.end(),
                                     [&](const Shard* shard) { return shard->shape == local; });
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

}  // namespace

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

}  // namespace shardweld::plan

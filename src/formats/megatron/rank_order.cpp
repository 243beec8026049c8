#include "rank_order.hpp"

#include <algorithm>
#include <string>

#include "catalogue/tensor.hpp"

#include "args.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Claims;
using catalogue::Coordinates;
using Ranks = std::vector<std::optional<Index>>;

/// What the files' grid does not tell of the job.
struct JobSize {
    Index ranks = 1;
    Index cp = 1;
};

/// Ranks between neighbours along pp and ep.
struct Strides {
    Index pp = 1;
    Index ep = 1;
};

Index size_or_one(const Claims& args, const char* key) {
    return std::max<Index>(number_claim(args, key).value_or(1), 1);
}

/// nullopt where the world is not made of these sizes alone.
std::optional<JobSize> world_of(const Grid& grid, const Claims& args) {
    const auto world = number_claim(args, "world_size");
    const Index cp = size_or_one(args, "context_parallel_size");
    const Index model = Index{grid.tp} * grid.pp;
    const bool has_encoder = number_claim(args, "encoder_tensor_model_parallel_size") > 0 ||
                             number_claim(args, "encoder_pipeline_model_parallel_size") > 0;
    if (!world || *world < model || *world / model < cp || *world % (model * cp) != 0 ||
        has_encoder) {
        return std::nullopt;
    }
    return JobSize{*world, cp};
}

/// The orders that the run may have had, the likeliest first. Cores before 0.8 counted expert ranks
/// within the decoder's order, later ones in a grid of their own without cp.
std::vector<Strides> orders_of(const Grid& grid, const JobSize& world, const Claims& args) {
    const Index inner = grid.tp * world.cp;
    const Strides dp_before_pp{world.ranks / grid.pp, grid.etp};
    const Strides dp_before_pp_old{world.ranks / grid.pp, inner};
    const Strides pp_before_dp{inner, grid.etp};
    const Strides pp_before_dp_old{inner * grid.ep, inner};
    const auto stated = args.find("use_tp_pp_dp_mapping");
    if (stated == args.end()) {
        return {dp_before_pp, dp_before_pp_old, pp_before_dp, pp_before_dp_old};
    }
    return stated->second == "true" ? std::vector{pp_before_dp, pp_before_dp_old}
                                    : std::vector{dp_before_pp, dp_before_pp_old};
}

Coordinates place_under(const Strides& order, const Grid& grid, Index rank) {
    Coordinates place;
    place.tp = static_cast<int>(rank % grid.tp);
    place.pp = static_cast<int>(rank / order.pp % grid.pp);
    place.ep = static_cast<int>(rank / order.ep % grid.ep);
    return place;
}

/// Of the files that state a rank.
template <typename PlaceOf>
std::vector<RankPlace> places_of(const Grid& grid, const Ranks& ranks, const PlaceOf& place_of) {
    std::vector<RankPlace> places;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        places.push_back(ranks[i] ? place_in(grid, place_of(i)) : RankPlace());
    }
    return places;
}

/// One process that makes all files has one number.
bool differ_between_files(const Ranks& ranks, Index world) {
    std::optional<Index> first;
    bool differs = false;
    for (const auto& rank : ranks) {
        if (rank && *rank >= world) {
            return false;
        }
        first = first ? first : rank;
        differs = differs || (rank && rank != first);
    }
    return differs;
}

}  // namespace

RankPlace place_in(const Grid& grid, const Coordinates& place) {
    RankPlace claims;
    const auto add = [&](const char* axis, int size, int rank) {
        if (size > 1) {
            claims[axis] = std::to_string(rank);
        }
    };
    add("tp", grid.tp, place.tp);
    add("pp", grid.pp, place.pp);
    add("ep", grid.ep, place.ep);
    return claims;
}

std::vector<RankPlace> places_by_rank(const Grid& grid, const Claims& args, const Ranks& ranks) {
    const auto world = world_of(grid, args);
    if (!world || !differ_between_files(ranks, world->ranks)) {
        return {};
    }
    const auto under = [&](const Strides& order) {
        return places_of(grid, ranks,
                         [&](std::size_t i) { return place_under(order, grid, *ranks[i]); });
    };
    const auto named = places_of(grid, ranks, [&](std::size_t i) { return grid.places[i]; });
    const auto orders = orders_of(grid, *world, args);
    for (const Strides& order : orders) {
        if (under(order) == named) {
            return named;
        }
    }
    return under(orders.front());
}

}  // namespace shardweld::formats::megatron

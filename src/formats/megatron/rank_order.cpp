#include "rank_order.hpp"

#include <algorithm>
#include <string>

#include "args.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Claims;
using Ranks = std::vector<std::optional<Index>>;

struct Sizes {
    Index tp = 1;
    Index cp = 1;
    Index pp = 1;
    Index ep = 1;
    Index etp = 1;
    Index world = 1;
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
std::optional<Sizes> sizes_of(const Grid& grid, const Claims& args) {
    const auto world = number_claim(args, "world_size");
    const Index cp = size_or_one(args, "context_parallel_size");
    const Index model = Index{grid.tp} * grid.pp;
    const bool has_encoder = number_claim(args, "encoder_tensor_model_parallel_size") > 0 ||
                             number_claim(args, "encoder_pipeline_model_parallel_size") > 0;
    if (!world || *world < model || *world / model < cp || *world % (model * cp) != 0 ||
        has_encoder) {
        return std::nullopt;
    }
    return Sizes{grid.tp, cp, grid.pp, grid.ep, grid.etp, *world};
}

/// The orders that the run may have had, the likeliest first. Cores before 0.8 counted expert ranks
/// within the decoder's order, later ones in a grid of their own without cp.
std::vector<Strides> orders_of(const Sizes& sizes, const Claims& args) {
    const Index inner = sizes.tp * sizes.cp;
    const Strides dp_before_pp{sizes.world / sizes.pp, sizes.etp};
    const Strides dp_before_pp_old{sizes.world / sizes.pp, inner};
    const Strides pp_before_dp{inner, sizes.etp};
    const Strides pp_before_dp_old{inner * sizes.ep, inner};
    const auto stated = args.find("use_tp_pp_dp_mapping");
    if (stated == args.end()) {
        return {dp_before_pp, dp_before_pp_old, pp_before_dp, pp_before_dp_old};
    }
    return stated->second == "true" ? std::vector{pp_before_dp, pp_before_dp_old}
                                    : std::vector{dp_before_pp, dp_before_pp_old};
}

RankPlace claims_for(const Sizes& sizes, Index tp, Index pp, Index ep) {
    RankPlace place;
    const auto add = [&](const char* axis, Index size, Index rank) {
        if (size > 1) {
            place[axis] = std::to_string(rank);
        }
    };
    add("tp", sizes.tp, tp);
    add("pp", sizes.pp, pp);
    add("ep", sizes.ep, ep);
    return place;
}

std::vector<RankPlace> places_under(const Strides& order, const Sizes& sizes, const Ranks& ranks) {
    std::vector<RankPlace> places;
    for (const auto& rank : ranks) {
        places.push_back(rank ? claims_for(sizes, *rank % sizes.tp, *rank / order.pp % sizes.pp,
                                           *rank / order.ep % sizes.ep)
                              : RankPlace());
    }
    return places;
}

/// One process that makes all files has one number.
bool tells(const Ranks& ranks, Index world) {
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

RankPlace place_in(const Grid& grid, const catalogue::Coordinates& place) {
    return claims_for({grid.tp, 1, grid.pp, grid.ep, grid.etp, 1}, place.tp, place.pp, place.ep);
}

std::vector<RankPlace> places_by_rank(const Grid& grid, const Claims& args, const Ranks& ranks) {
    const auto sizes = sizes_of(grid, args);
    if (!sizes || !tells(ranks, sizes->world)) {
        return {};
    }
    std::vector<RankPlace> named;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        named.push_back(ranks[i] ? place_in(grid, grid.places[i]) : RankPlace());
    }
    const auto orders = orders_of(*sizes, args);
    for (const Strides& order : orders) {
        if (auto places = places_under(order, *sizes, ranks); places == named) {
            return places;
        }
    }
    return places_under(orders.front(), *sizes, ranks);
}

}  // namespace shardweld::formats::megatron

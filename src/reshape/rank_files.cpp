#include "rank_files.hpp"

#include <algorithm>
#include <numeric>

#include "core/text.hpp"

namespace shardweld::reshape {

namespace {

std::string padded(Index number, std::size_t width) {
    return zero_filled(std::to_string(number), width);
}

}  // namespace

std::vector<RankPair> rank_pairs(const ParallelSizes& sizes) {
    // More data-parallel ranks repeat these.
    const Index ranks = std::lcm(sizes.tp, sizes.expert_tp() * sizes.ep);
    std::vector<RankPair> pairs;
    for (Index rank = 0; rank < ranks; ++rank) {
        pairs.push_back({rank % sizes.tp, rank / sizes.expert_tp() % sizes.ep});
    }
    std::ranges::sort(pairs, {}, [](const RankPair& pair) { return std::pair(pair.ep, pair.tp); });
    return pairs;
}

std::string rank_file(const ParallelSizes& sizes, Index pp, const RankPair& pair) {
    return "release/mp_rank_" + padded(pair.tp, 2) + (sizes.pp > 1 ? "_" + padded(pp, 3) : "") +
           (sizes.ep > 1 ? "_" + padded(pair.ep, 3) : "") + "/model_optim_rng.pt";
}

}  // namespace shardweld::reshape

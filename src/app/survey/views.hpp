// Which ranks see the same files: those on one host with the same mounts share one view.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/core/path.hpp"
#include "shardweld/mpi/comm.hpp"

namespace shardweld::app {

/// Ranks with the same view form a group; its lowest rank looks for all.
struct Views {
    std::vector<std::uint32_t> group_of_rank;
    std::vector<int> leaders;  ///< lowest rank of each group

    [[nodiscard]] bool is_leader(int rank) const {
        return leaders[group_of_rank[static_cast<std::size_t>(rank)]] == rank;
    }
    /// Ranks of its group, itself included.
    [[nodiscard]] Index n_beside(int rank) const {
        return std::count(group_of_rank.begin(), group_of_rank.end(),
                          group_of_rank[static_cast<std::size_t>(rank)]);
    }
};

/// Collective. Groups the ranks by host, mount namespace and identity of the directory.
Views group_views(mpi::Comm& comm, const fs::path& directory);

}  // namespace shardweld::app

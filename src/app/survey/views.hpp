// Which ranks see the same files: those on one host that see the same directory, with the same
// mounts below it, share one view, in whatever namespaces (containers) they run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "mpi/comm.hpp"

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

/// Whether what links lead to out of the directory is seen alike.
enum class Links { stay_inside, lead_out };

/// Collective. Groups the ranks by host, identity of the directory and mounts below it; where links
/// lead out of it also by mount namespace, for each may have other files there.
Views group_views(mpi::Comm& comm, const fs::path& directory, Links links);

}  // namespace shardweld::app

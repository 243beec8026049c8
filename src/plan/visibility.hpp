// Which ranks can read which files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardweld::plan {

/// Which ranks can read which files. Ranks with the same view share a group.
struct Visibility {
    std::vector<std::uint32_t> group_of_rank;
    std::vector<std::vector<bool>> group_sees;  ///< [group][file]

    [[nodiscard]] bool sees(int rank, std::uint32_t file) const {
        return group_sees[group_of_rank[static_cast<std::size_t>(rank)]][file];
    }
    /// Every rank sees all files.
    static Visibility everywhere(int n_ranks, std::size_t n_files);
};

}  // namespace shardweld::plan

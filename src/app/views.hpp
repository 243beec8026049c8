// Which ranks see which files: ranks on one host with the same mounts share one view.
// Knows ranks and file names; nothing of formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/mpi/comm.hpp"

namespace shardweld::app {

/// Ranks with the same view form a group; its lowest rank looks for all.
struct Views {
    std::vector<std::uint32_t> group_of_rank;
    std::vector<int> leaders;  ///< lowest rank of each group

    [[nodiscard]] bool leads(int rank) const {
        return leaders[group_of_rank[static_cast<std::size_t>(rank)]] == rank;
    }
};

/// Collective. Groups the ranks by host, mount namespace and identity of the directory.
Views group_views(mpi::Comm& comm, const std::filesystem::path& directory);

/// Sizes of files by group; -1: the group does not see it.
using SizesByGroup = std::vector<std::vector<Index>>;

/// Collective. Looks for files below a directory; every file is looked at once a group.
/// Error(mismatch) when two groups hold different files of one size (see same_content.hpp).
SizesByGroup see(mpi::Comm& comm, const Views& views, const std::filesystem::path& directory,
                 const std::vector<std::string>& files);

/// Error(not_found) listing all files that no group sees; Error(mismatch) when two groups see
/// different sizes.
void check_seen(const SizesByGroup& sizes, const std::vector<std::string>& files,
                const std::filesystem::path& directory);

/// The rank that handles file number `file`: spread over those that see it.
int handler_of(std::size_t file, const SizesByGroup& sizes, const Views& views);

}  // namespace shardweld::app

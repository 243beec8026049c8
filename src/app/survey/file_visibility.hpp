// Which files the groups of ranks see, and that they see the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "io/stamp.hpp"
#include "mpi/comm.hpp"

namespace shardweld::io {
class Openings;
}  // namespace shardweld::io

namespace shardweld::app {

/// Ranks with the same view form a group; its lowest rank looks for all.
struct HostGroups {
    std::vector<std::uint32_t> group_of_rank;
    std::vector<int> leaders;             ///< lowest rank of each group
    std::vector<std::string> names = {};  ///< of the leaders' hosts

    [[nodiscard]] bool is_leader(int rank) const {
        return leaders[group_of_rank[as_size(rank)]] == rank;
    }
    /// Ranks of its group, itself included.
    [[nodiscard]] Index n_beside(int rank) const {
        return std::ranges::count(group_of_rank, group_of_rank[as_size(rank)]);
    }
};

/// Collective. Groups the ranks by host, identity of the directory and mounts below it; where links
/// lead out of it also by mount namespace, for each may have other files there.
HostGroups host_groups(mpi::Comm& comm, const fs::path& directory, bool has_links_outside);

/// What the system says about a file.
struct FileStatus {
    Index size = -1;             ///< bytes; -1: not seen
    std::uint64_t identity = 0;  ///< from inode and modification time: equal where it is one file
    io::FileStamp stamp = {};    ///< modified_ns -1: not seen
    bool is_forbidden = false;   ///< seen, but this user may not read it
};

/// By group, then by file.
using FileStats = std::vector<std::vector<FileStatus>>;

/// Error(io) when the system cannot tell.
FileStatus look_at(const fs::path& file);

/// Files that two groups see with one size but as two files, at most `limit` of them, spread
/// evenly.
std::vector<std::size_t> doubtful(const FileStats& stats, std::size_t limit);

/// Sizes of files by group; -1: the group does not see it.
using SizesByGroup = std::vector<std::vector<Index>>;

/// What the groups see below a directory. A group's ranks share the looking among them, and no file
/// is looked at twice by a group: on a parallel file system each look is a request to one server.
class FileVisibility {
  public:
    /// The visibility of no file at all.
    FileVisibility() = default;
    FileVisibility(mpi::Comm& comm, HostGroups hosts, fs::path directory)
        : comm_(&comm), hosts_(std::move(hosts)), directory_(std::move(directory)) {}

    [[nodiscard]] const HostGroups& hosts() const { return hosts_; }
    /// Local. From now on the leaders of the groups, `leaders`, are all ranks there are.
    void leave_to(mpi::Comm& leaders);

    /// Collective. Looks for the files that were not asked for before.
    /// Error(mismatch) when two groups see different contents under one name, Error(io) listing
    /// files that may not be read.
    SizesByGroup sizes_of(const std::vector<std::string>& files);
    /// Whether all ranks see the same files: then one that is opened need not be looked for.
    [[nodiscard]] bool is_one_view() const { return hosts_.leaders.size() == 1; }
    /// Collective, where that is so. Files that were not asked for before are what `opened` says,
    /// where any rank's does.
    void add_stamps(const std::vector<std::string>& files, const io::Openings& opened);
    /// What files that were asked for before were as this rank's group saw them first
    /// (FileStatus::stamp). Local.
    [[nodiscard]] std::vector<io::FileStamp> stamps(const std::vector<std::string>& files) const;

  private:
    struct KnownFile {
        std::vector<Index> sizes;  ///< by group
        io::FileStamp stamp;       ///< for this rank's group
    };
    void look_for(const std::vector<std::string>& files);

    mpi::Comm* comm_ = nullptr;
    HostGroups hosts_;
    fs::path directory_;
    std::unordered_map<std::string, KnownFile> known_;
};

/// Error(not_found) listing all files that no group sees, and the hosts; Error(mismatch) when two
/// groups see different sizes.
void check_seen(const SizesByGroup& sizes, const std::vector<std::string>& files,
                const fs::path& directory, const HostGroups& hosts);

/// The rank that handles each of `files`, numbers of those in `sizes`. They are spread evenly over
/// the ranks that see them, and over nodes where there are fewer files than ranks.
std::vector<int> ranks_for(const std::vector<std::uint32_t>& files, const SizesByGroup& sizes,
                           const HostGroups& hosts);
/// ranks_for() of all files in `sizes`.
std::vector<int> ranks_for_all(const SizesByGroup& sizes, const HostGroups& hosts);

}  // namespace shardweld::app

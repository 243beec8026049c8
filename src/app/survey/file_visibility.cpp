#include "file_visibility.hpp"

#include <cerrno>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include "core/fingerprint.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/input_file.hpp"
#include "io/openings.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// "relative/path device root", of each mount below the directory, from proc_pid_mountinfo(5).
std::string mounts_below(const fs::path& directory) {
    std::error_code failed;
    const std::string above = fs::canonical(directory, failed).string() + "/";
    std::set<std::string> mounts;
    std::ifstream in("/proc/self/mountinfo");
    for (std::string line; std::getline(in, line);) {
        std::istringstream fields(line);
        std::string ignored;
        std::string device;
        std::string root;
        std::string point;
        fields >> ignored >> ignored >> device >> root >> point;
        if (point.starts_with(above)) {
            mounts.insert(point.substr(above.size()) + " " + device + " " + root);
        }
    }
    return add_up(mounts, [](const std::string& mount) { return "\n" + mount; });
}

/// Equal for ranks that see the same files. Hosts may have one name, so their boots count, too.
std::string view_key(const mpi::Comm& comm, const fs::path& directory, bool has_links_outside) {
    std::string key = comm.host() + " " + boot_id();
    struct stat status {};
    if (stat(directory.c_str(), &status) == 0) {
        key += " " + std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) +
               mounts_below(directory);
    }
    std::error_code unknown;
    if (has_links_outside) {
        key += "\n" + fs::read_symlink("/proc/self/ns/mnt", unknown).string();
    }
    return key;
}

constexpr std::size_t kMaxFiles = 64;
constexpr Bytes kBlocks = 16;
constexpr Bytes kBlockBytes = 4096;

/// Over blocks from the first to the last byte of a file; over all of a small one.
std::uint64_t sampled(const fs::path& path) {
    const io::InputFile file = io::InputFile::open(path);
    ByteBuffer block(std::min(file.size(), kBlockBytes));
    Fingerprint hash;
    for (Bytes i = 0; i < kBlocks; ++i) {
        const Bytes offset = (file.size() - block.size()) / (kBlocks - 1) * i;
        file.read_at(i + 1 < kBlocks ? offset : file.size() - block.size(), block);
        hash.add(block);
    }
    return hash.value();
}

bool is_doubtful(const FileStats& stats, std::size_t file) {
    std::optional<FileStatus> first;
    for (const auto& group : stats) {
        const FileStatus& look = group[file];
        if (first && look.size == first->size && look.identity != first->identity) {
            return true;
        }
        if (!first && look.size >= 0) {
            first = look;
        }
    }
    return false;
}

/// `hashes`: pairs of a rank and what it has read.
void require_equal(const std::vector<std::pair<int, std::uint64_t>>& hashes,
                   const std::string& file) {
    for (const auto& [rank, hash] : hashes) {
        if (hash != hashes.front().second) {
            throw Error(ErrorCode::mismatch,
                        "file " + file + " has other contents on rank " + std::to_string(rank) +
                            " than on rank " + std::to_string(hashes.front().first) +
                            ": the nodes hold different checkpoints",
                        "remove the stale copies");
        }
    }
}

/// A rank reads what it sees, so all that is seen has to be readable.
void check_readable(const FileStats& stats, const std::vector<std::string>& files,
                    const fs::path& directory) {
    std::vector<std::string> forbidden;
    for (const std::size_t file : indices(files)) {
        const bool is_forbidden =
            std::ranges::any_of(stats, [&](const auto& group) { return group[file].is_forbidden; });
        if (is_forbidden) {
            forbidden.push_back(files[file]);
        }
    }
    if (!forbidden.empty()) {
        throw Error(ErrorCode::io,
                    counted(forbidden.size(), "file") +
                        " of the checkpoint cannot be read by this user: " + listed(forbidden) +
                        " in " + directory.string(),
                    "have their owner permit it");
    }
}

/// Collective. Compares the contents of doubtful files, 16 blocks of 4 KiB each, of 64 files at
/// most: two checkpoints of one run differ nearly everywhere. Error(mismatch) with the first file
/// that differs.
void check_same_content(mpi::Comm& comm, const HostGroups& hosts, const FileStats& stats,
                        const fs::path& directory, const std::vector<std::string>& files) {
    const std::vector<std::size_t> chosen = doubtful(stats, kMaxFiles);
    if (chosen.empty()) {
        return;
    }
    std::vector<std::uint64_t> mine;
    mpi::collectively(comm, [&] {
        const std::uint32_t group = hosts.group_of_rank[as_size(comm.rank())];
        for (std::size_t i = 0; hosts.is_leader(comm.rank()) && i < chosen.size(); ++i) {
            const bool is_seen = stats[group][chosen[i]].size >= 0;
            mine.push_back(is_seen ? sampled(directory / files[chosen[i]]) : 0);
        }
    });
    const auto all = mpi::gather(comm, std::move(mine));
    for (const std::size_t i : indices(chosen)) {
        std::vector<std::pair<int, std::uint64_t>> hashes;  // of those that see the file
        for (const std::size_t group : indices(stats)) {
            if (stats[group][chosen[i]].size >= 0) {
                const int leader = hosts.leaders[group];
                hashes.emplace_back(leader, all[as_size(leader)][i]);
            }
        }
        require_equal(hashes, files[chosen[i]]);
    }
}

/// Rights that a look has told, without asking once more.
bool may_read(const struct stat& status) {
    return (status.st_mode & S_IROTH) != 0;
}

bool cannot_read(const fs::path& file) {
    return ::eaccess(file.c_str(), R_OK) != 0;
}

}  // namespace

HostGroups host_groups(mpi::Comm& comm, const fs::path& directory, bool has_links_outside) {
    const std::string key = view_key(comm, directory, has_links_outside);
    HostGroups hosts;
    std::map<std::string, std::uint32_t> groups;
    const auto keys = mpi::gather(comm, std::pair(key, comm.host()));
    for (const std::size_t rank : indices(keys)) {
        const auto [at, is_new] =
            groups.try_emplace(keys[rank].first, static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            hosts.leaders.push_back(static_cast<int>(rank));
            hosts.names.push_back(keys[rank].second);
        }
        hosts.group_of_rank.push_back(at->second);
    }
    return hosts;
}

FileStatus look_at(const fs::path& file) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0) {
        if (!io::means_absent(errno)) {
            io::throw_errno(errno, "examine", file);
        }
        return {};
    }
    if (!S_ISREG(status.st_mode)) {
        return {};
    }
    Fingerprint identity;
    identity.add(status.st_ino);
    identity.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    identity.add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
    return {static_cast<Index>(status.st_size), identity.value(),
            io::stamp_of(status, file.c_str()), !may_read(status) && cannot_read(file)};
}

std::vector<std::size_t> doubtful(const FileStats& stats, std::size_t limit) {
    std::vector<std::size_t> all;
    for (std::size_t file = 0; !stats.empty() && file < stats.front().size(); ++file) {
        if (is_doubtful(stats, file)) {
            all.push_back(file);
        }
    }
    const std::size_t n = std::min(all.size(), limit);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < n; ++i) {
        chosen.push_back(all[i * all.size() / n]);
    }
    return chosen;
}

void FileVisibility::look_for(const std::vector<std::string>& files) {
    const auto own = as_size(comm_->rank());
    std::vector<std::size_t> position(hosts_.group_of_rank.size());  // of a rank in its group
    std::vector<std::size_t> n_ranks(hosts_.leaders.size(), 0);      // of a group
    for (const std::size_t rank : indices(position)) {
        position[rank] = n_ranks[hosts_.group_of_rank[rank]]++;
    }
    std::vector<FileStatus> mine;
    mpi::collectively(*comm_, [&] {
        const std::size_t step = n_ranks[hosts_.group_of_rank[own]];
        for (std::size_t i = position[own]; i < files.size(); i += step) {
            mine.push_back(look_at(directory_ / files[i]));
        }
    });
    const auto all = mpi::gather(*comm_, std::move(mine));
    FileStats stats(hosts_.leaders.size(), std::vector<FileStatus>(files.size()));
    for (const std::size_t rank : indices(all)) {
        const std::uint32_t group = hosts_.group_of_rank[rank];
        for (std::size_t i = 0; i < all[rank].size(); ++i) {
            stats[group][position[rank] + i * n_ranks[group]] = all[rank][i];
        }
    }
    check_readable(stats, files, directory_);
    check_same_content(*comm_, hosts_, stats, directory_, files);
    for (const std::size_t i : indices(files)) {
        KnownFile& known = known_[files[i]];
        for (const auto& group : stats) {
            known.sizes.push_back(group[i].size);
        }
        known.stamp = stats[hosts_.group_of_rank[own]][i].stamp;
    }
}

void FileVisibility::leave_to(mpi::Comm& leaders) {
    comm_ = &leaders;
    std::iota(hosts_.leaders.begin(), hosts_.leaders.end(), 0);
    hosts_.group_of_rank.assign(hosts_.leaders.begin(), hosts_.leaders.end());
}

void FileVisibility::add_stamps(const std::vector<std::string>& files, const io::Openings& opened) {
    std::vector<std::pair<std::size_t, io::FileStamp>> mine;
    for (const std::size_t i : indices(files)) {
        const auto stamp =
            known_.contains(files[i]) ? std::nullopt : opened.stamp_of(directory_ / files[i]);
        if (stamp) {
            mine.emplace_back(i, *stamp);
        }
    }
    for (const auto& [file, stamp] : mpi::gather_all(*comm_, std::move(mine))) {
        known_.try_emplace(files[file], KnownFile{{static_cast<Index>(stamp.size)}, stamp});
    }
}

SizesByGroup FileVisibility::sizes_of(const std::vector<std::string>& files) {
    auto unknown = collect_list<std::string>(
        files, std::identity(), [&](const std::string& file) { return !known_.contains(file); });
    look_for(unknown);
    SizesByGroup sizes(hosts_.leaders.size());
    for (const std::string& file : files) {
        const std::vector<Index>& by_group = known_.at(file).sizes;
        for (const std::size_t group : indices(sizes)) {
            sizes[group].push_back(by_group[group]);
        }
    }
    return sizes;
}

std::vector<io::FileStamp> FileVisibility::stamps(const std::vector<std::string>& files) const {
    return collect_list(files, [&](const std::string& file) { return known_.at(file).stamp; });
}

void check_seen(const SizesByGroup& sizes, const std::vector<std::string>& files,
                const fs::path& directory, const HostGroups& hosts) {
    std::vector<std::string> missing;
    for (const std::size_t file : indices(files)) {
        Index size = -1;
        for (const auto& group : sizes) {
            if (group[file] >= 0 && size >= 0 && group[file] != size) {
                throw Error(ErrorCode::mismatch,
                            "file " + files[file] + " is " + std::to_string(size) +
                                " bytes on one node and " + std::to_string(group[file]) +
                                " on another: the nodes hold different checkpoints");
            }
            size = std::max(size, group[file]);
        }
        if (size < 0) {
            missing.push_back(files[file]);
        }
    }
    if (!missing.empty()) {
        const std::set<std::string> names(hosts.names.begin(), hosts.names.end());
        throw Error(ErrorCode::not_found,
                    counted(missing.size(), "file") + " of the checkpoint " +
                        (missing.size() == 1 ? "is" : "are") + " missing: " + listed(missing) +
                        " (looked for in " + directory.string() + " on " +
                        listed({names.begin(), names.end()}) + ")",
                    std::string("copy ") + (missing.size() == 1 ? "it" : "them") +
                        " from the node that wrote " + (missing.size() == 1 ? "it" : "them") +
                        ", or start a rank of shardweld on that node, too");
    }
}

std::vector<int> ranks_for(const std::vector<std::uint32_t>& files, const SizesByGroup& sizes,
                           const HostGroups& hosts) {
    std::vector<std::vector<int>> ranks_of(hosts.leaders.size());  // by group
    for (const std::size_t rank : indices(hosts.group_of_rank)) {
        ranks_of[hosts.group_of_rank[rank]].push_back(static_cast<int>(rank));
    }
    std::vector<int> chosen;
    for (const std::size_t i : indices(files)) {
        const auto sees = [&](std::size_t group) { return sizes[group][files[i]] >= 0; };
        std::size_t n_able = 0;
        for (const std::size_t group : indices(ranks_of)) {
            n_able += sees(group) ? ranks_of[group].size() : 0;
        }
        std::size_t place = files.size() < n_able ? i * n_able / files.size() : i % n_able;
        std::size_t group = 0;
        while (!sees(group) || place >= ranks_of[group].size()) {
            place -= sees(group) ? ranks_of[group].size() : 0;
            ++group;
        }
        chosen.push_back(ranks_of[group][place]);
    }
    return chosen;
}

std::vector<int> ranks_for_all(const SizesByGroup& sizes, const HostGroups& hosts) {
    std::vector<std::uint32_t> files(sizes.front().size());
    std::iota(files.begin(), files.end(), 0U);
    return ranks_for(files, sizes, hosts);
}

}  // namespace shardweld::app

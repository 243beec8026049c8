#include "views.hpp"

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <sys/stat.h>

#include "core/host.hpp"
#include "mpi/share.hpp"

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
    std::string all;
    for (const std::string& mount : mounts) {
        all += "\n" + mount;
    }
    return all;
}

/// Equal for ranks that see the same files. Hosts may have one name, so their boots count, too.
std::string view_key(const mpi::Comm& comm, const fs::path& directory, Links links) {
    std::string key = comm.host() + " " + boot_id();
    struct stat status {};
    if (stat(directory.c_str(), &status) == 0) {
        key += " " + std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) +
               mounts_below(directory);
    }
    std::error_code unknown;
    if (links == Links::lead_out) {
        key += "\n" + fs::read_symlink("/proc/self/ns/mnt", unknown).string();
    }
    return key;
}

}  // namespace

Views group_views(mpi::Comm& comm, const fs::path& directory, Links links) {
    const std::string key = view_key(comm, directory, links);
    Views views;
    std::map<std::string, std::uint32_t> groups;
    const std::vector<std::string> keys = mpi::gather(comm, key);
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
        const auto [at, is_new] =
            groups.try_emplace(keys[rank], static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            views.leaders.push_back(static_cast<int>(rank));
        }
        views.group_of_rank.push_back(at->second);
    }
    return views;
}

}  // namespace shardweld::app

#include "views.hpp"

#include <map>
#include <string>

#include <sys/stat.h>

#include "shardweld/mpi/share.hpp"

namespace shardweld::app {

namespace {

/// Host, mount namespace and identity of the directory: equal for ranks that see the same files.
std::string view_key(const mpi::Comm& comm, const fs::path& directory) {
    std::error_code ignored;
    std::string key = comm.host() + " " + fs::read_symlink("/proc/self/ns/mnt", ignored).string();
    struct stat status {};
    if (stat(directory.c_str(), &status) == 0) {
        key += " " + std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    }
    return key;
}

}  // namespace

Views group_views(mpi::Comm& comm, const fs::path& directory) {
    const std::string key = view_key(comm, directory);
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

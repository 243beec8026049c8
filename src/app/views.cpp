#include "views.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <sys/stat.h>

#include "shardweld/core/error.hpp"

#include "same_content.hpp"

namespace shardweld::app {

namespace {

namespace fs = std::filesystem;

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

Views group_views(mpi::Comm& comm, const std::filesystem::path& directory) {
    const std::string key = view_key(comm, directory);
    Views views;
    std::map<std::vector<std::byte>, std::uint32_t> groups;
    const auto keys = comm.all_gather(std::as_bytes(std::span(key)));
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

SizesByGroup see(mpi::Comm& comm, const Views& views, const std::filesystem::path& directory,
                 const std::vector<std::string>& files) {
    std::vector<Look> mine;
    if (views.leads(comm.rank())) {
        for (const std::string& file : files) {
            mine.push_back(look_at(directory / file));
        }
    }
    const auto all = comm.all_gather(std::as_bytes(std::span(mine)));
    Looks looks;
    for (const int leader : views.leaders) {
        const auto& bytes = all[static_cast<std::size_t>(leader)];
        std::vector<Look>& group = looks.emplace_back(bytes.size() / sizeof(Look));
        if (!group.empty()) {
            std::memcpy(group.data(), bytes.data(), bytes.size());
        }
    }
    check_same_content(comm, views, looks, directory, files);
    SizesByGroup sizes;
    for (const auto& group : looks) {
        std::vector<Index>& of_group = sizes.emplace_back();
        for (const Look& look : group) {
            of_group.push_back(look.size);
        }
    }
    return sizes;
}

void check_seen(const SizesByGroup& sizes, const std::vector<std::string>& files,
                const std::filesystem::path& directory) {
    std::string missing;
    std::size_t n_missing = 0;
    for (std::size_t file = 0; file < files.size(); ++file) {
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
        if (size < 0 && ++n_missing <= 8) {
            missing += (missing.empty() ? "" : ", ") + files[file];
        }
    }
    if (n_missing > 0) {
        throw Error(ErrorCode::not_found,
                    std::to_string(n_missing) +
                        " file(s) of the checkpoint are missing on every rank: " + missing +
                        (n_missing > 8 ? ", ..." : "") + " in " + directory.string() +
                        "; copy them there, or merge where they are");
    }
}

int handler_of(std::size_t file, const SizesByGroup& sizes, const Views& views) {
    std::vector<int> able;
    for (std::size_t rank = 0; rank < views.group_of_rank.size(); ++rank) {
        if (sizes[views.group_of_rank[rank]][file] >= 0) {
            able.push_back(static_cast<int>(rank));
        }
    }
    return able[file % able.size()];
}

}  // namespace shardweld::app

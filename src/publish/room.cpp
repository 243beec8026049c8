#include "room.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/text.hpp"
#include "io/errno.hpp"
#include "shardweld/error.hpp"

#include "quota.hpp"

namespace shardweld::publish {

namespace {

// lustre_user.h
constexpr auto kLustre = 0x0BD00BD0;

bool is_lustre(const fs::path& directory) {
    struct statfs status {};
    return ::statfs(directory.c_str(), &status) == 0 && status.f_type == kLustre;
}

std::string shortage_text(const std::string& whose, const std::string& left,
                          const std::string& needed) {
    return whose + " has " + left + ", the output needs " + needed;
}
}  // namespace

fs::path nearest_existing(const fs::path& directory) {
    std::error_code failed;
    fs::path at = fs::absolute(directory);
    while (!fs::exists(at, failed) && at.has_relative_path()) {
        at = at.parent_path();
    }
    return at;
}

Room room_at(const fs::path& directory, const std::string& path) {
    const fs::path at = nearest_existing(directory);
    struct statvfs space {};
    if (::statvfs(at.c_str(), &space) != 0) {
        io::throw_errno(errno, "ask for the free space of", at);
    }
    Room room;
    struct stat status {};
    room.device = ::stat(at.c_str(), &status) == 0 ? std::uint64_t{status.st_dev} : 0;
    room.bytes_free = Bytes{space.f_bavail} * Bytes{space.f_frsize};
    // File systems without a table of inodes report none at all.
    if (space.f_files != 0) {
        room.files_free = Bytes{space.f_favail};
    }
    const auto quotas = is_lustre(at) ? lfs_quotas(at, path) : kernel_quotas(at);
    room.knows_quotas = quotas.has_value();
    room.quotas = quotas.value_or(std::vector<Quota>{});
    return room;
}

std::vector<std::string> shortages(const Room& room, const fs::path& directory, Bytes bytes,
                                   Index n_files, bool is_least) {
    const std::string least = is_least ? "at least " : "";
    const std::string system = "the file system of " + directory.string();
    const std::string files = least + std::to_string(n_files) + " files";
    const std::string size = least + human_bytes(bytes);
    const auto count = static_cast<Bytes>(n_files);
    std::vector<std::string> texts;
    if (room.bytes_free < bytes) {
        texts.push_back(shortage_text(system, human_bytes(room.bytes_free) + " free", size));
    }
    if (room.files_free && *room.files_free < count) {
        texts.push_back(
            shortage_text(system, std::to_string(*room.files_free) + " free inodes", files));
    }
    for (const Quota& quota : room.quotas) {
        const std::string whose = "the quota of " + quota.whose + " on " + system;
        if (quota.bytes_left && *quota.bytes_left < bytes) {
            texts.push_back(shortage_text(whose, human_bytes(*quota.bytes_left) + " left", size));
        }
        if (quota.files_left && *quota.files_left < count) {
            texts.push_back(
                shortage_text(whose, std::to_string(*quota.files_left) + " files left", files));
        }
    }
    return texts;
}

void require_room(const Room& room, const fs::path& directory, Bytes bytes, Index n_files,
                  bool is_least) {
    const auto short_of = shortages(room, directory, bytes, n_files, is_least);
    if (short_of.empty()) {
        return;
    }
    const std::string text = joined(short_of, "\n  ");
    throw Error(ErrorCode::space, text,
                "free space or choose another --target_dir; for inodes, raise --max_shard_size");
}

}  // namespace shardweld::publish

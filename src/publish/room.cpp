#include "room.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/text.hpp"
#include "io/errno.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::publish {

namespace {

constexpr double kQuotaLimit_s = 20;
constexpr Bytes kKibibyte = 1024;

/// nullopt when `limit` is 0, which means none.
std::optional<Bytes> remaining(Bytes limit, Bytes used) {
    return limit == 0 ? std::nullopt : std::optional(limit - std::min(limit, used));
}

constexpr std::array<int, 2> kQuotaKinds = {USRQUOTA, GRPQUOTA};

/// Who owns files that this process makes in a directory: with the setgid bit they belong to the
/// directory's group, as in the directories that projects share.
unsigned owner_of_new_files(const fs::path& directory, int kind) {
    if (kind == USRQUOTA) {
        return ::geteuid();
    }
    struct stat status {};
    const bool is_given =
        ::stat(directory.c_str(), &status) == 0 && (status.st_mode & S_ISGID) != 0;
    return is_given ? status.st_gid : ::getegid();
}

std::string owner_text(int kind, unsigned owner) {
    return (kind == USRQUOTA ? "user " : "group ") + std::to_string(owner);
}

/// A number, perhaps with the star or brackets that lfs puts around what is over or estimated.
std::optional<Bytes> number_in(std::string_view word) {
    while (!word.empty() && (word.front() == '[')) {
        word.remove_prefix(1);
    }
    while (!word.empty() && (word.back() == '*' || word.back() == ']')) {
        word.remove_suffix(1);
    }
    const auto number = parse_index(word);
    return number && *number >= 0 ? std::optional(static_cast<Bytes>(*number)) : std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    constexpr std::string_view kBlanks = " \t\n";
    for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = text.find_first_not_of(kBlanks, end);
    }
    return words;
}

/// From the kernel; nullopt where it keeps none for this file system or does not say.
std::optional<std::vector<Quota>> kernel_quotas(const fs::path& directory) {
#ifdef SYS_quotactl_fd
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return std::nullopt;
    }
    std::vector<Quota> quotas;
    for (const int kind : kQuotaKinds) {
        const unsigned owner = owner_of_new_files(directory, kind);
        struct dqblk block {};
        if (::syscall(SYS_quotactl_fd, fd, QCMD(Q_GETQUOTA, kind), owner, &block) == 0) {
            quotas.push_back({owner_text(kind, owner),
                              remaining(block.dqb_bhardlimit * kKibibyte, block.dqb_curspace),
                              remaining(block.dqb_ihardlimit, block.dqb_curinodes)});
        }
    }
    (void)::close(fd);
    return quotas.empty() ? std::nullopt : std::optional(std::move(quotas));
#else
    (void)directory;
    return std::nullopt;
#endif
}

}  // namespace

std::optional<Quota> parse_lfs_quota(const std::string& said, const std::string& whose) {
    // A long name of the file system stands on a line of its own; grace is "-" or a time.
    const auto words = words_of(said);
    constexpr std::size_t kFields = 9;
    if (words.size() < kFields) {
        return std::nullopt;
    }
    const auto used = number_in(words[1]);
    const auto limit = number_in(words[3]);
    const auto files = number_in(words[5]);
    const auto file_limit = number_in(words[7]);
    constexpr Bytes kMost = ~Bytes{0} / kKibibyte;
    if (!used || !limit || !files || !file_limit || *used > kMost || *limit > kMost) {
        return std::nullopt;
    }
    return Quota{whose, remaining(*limit * kKibibyte, *used * kKibibyte),
                 remaining(*file_limit, *files)};
}

std::optional<std::vector<Quota>> lfs_quotas(const fs::path& directory, const std::string& path) {
    const auto lfs = process::find_program("lfs", path);
    if (!lfs) {
        return std::nullopt;
    }
    std::vector<Quota> quotas;
    for (const int kind : kQuotaKinds) {
        const unsigned owner = owner_of_new_files(directory, kind);
        std::string said;
        const auto ending =
            process::run({*lfs,
                          {"quota", "-q", kind == USRQUOTA ? "-u" : "-g", std::to_string(owner),
                           fs::absolute(directory).string()},
                          {},
                          kQuotaLimit_s,
                          [&](std::string_view line) { said += std::string(line) + "\n"; }});
        const auto quota = ending && ending->is_success()
                               ? parse_lfs_quota(said, owner_text(kind, owner))
                               : std::nullopt;
        if (quota) {
            quotas.push_back(*quota);
        }
    }
    return quotas.empty() ? std::nullopt : std::optional(std::move(quotas));
}

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
    room.quotas =
        (is_lustre(at) ? lfs_quotas(at, path) : kernel_quotas(at)).value_or(std::vector<Quota>{});
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

namespace {

constexpr double kStripingLimit_s = 120;  // a busy metadata server is slow
constexpr std::size_t kMostLine = 300;
constexpr const char* kAdvice = "leave out --stripe to take the directory's own striping";

std::string why_it_failed(const std::optional<process::Ending>& ending, const std::string& said) {
    if (!ending) {
        return "cannot be started (" + std::generic_category().message(errno) + ")";
    }
    const std::string how = ending->took_too_long ? "does not end within two minutes"
                            : ending->code ? "exits with code " + std::to_string(*ending->code)
                                           : "is ended by a signal";
    return how + (said.empty() ? "" : " (" + said + ")");
}

}  // namespace

void set_striping(const fs::path& directory, const Striping& striping, const std::string& path) {
    const auto lfs = process::find_program("lfs", path);
    if (!lfs) {
        throw Error(ErrorCode::unsupported,
                    "--stripe needs Lustre's program lfs, which is not on PATH", kAdvice);
    }
    std::vector<std::string> arguments{"setstripe", "-c", std::to_string(striping.count)};
    if (striping.size != 0) {
        arguments.insert(arguments.end(), {"-S", std::to_string(striping.size)});
    }
    arguments.push_back(fs::absolute(directory).string());
    std::string said;
    const auto ending =
        process::run({*lfs, std::move(arguments), {}, kStripingLimit_s, [&](std::string_view line) {
                          said = printable(line, kMostLine);
                      }});
    if (!ending || !ending->is_success()) {
        throw Error(ErrorCode::unsupported,
                    "cannot stripe " + directory.string() + ": " + lfs->string() + " setstripe " +
                        why_it_failed(ending, said),
                    kAdvice);
    }
}

}  // namespace shardweld::publish

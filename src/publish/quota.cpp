#include "quota.hpp"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/text.hpp"
#include "process/process.hpp"

namespace shardweld::publish {

namespace {

constexpr double kQuotaLimit_s = 20;
constexpr Bytes kKibibyte = 1024;

/// nullopt when `limit` is 0, which means none.
std::optional<Bytes> remaining(Bytes limit, Bytes used) {
    return limit == 0 ? std::nullopt : std::optional(limit - std::min(limit, used));
}

struct Owner {
    int kind;          ///< USRQUOTA or GRPQUOTA
    const char* flag;  ///< of lfs quota
    unsigned id;
    std::string text;
};

/// Of files that this process makes in a directory: with the setgid bit they belong to the
/// directory's group, as in the directories that projects share.
std::array<Owner, 2> owners_of_new_files(const fs::path& directory) {
    const unsigned user = ::geteuid();
    struct stat status {};
    const bool is_given =
        ::stat(directory.c_str(), &status) == 0 && (status.st_mode & S_ISGID) != 0;
    const unsigned group = is_given ? status.st_gid : ::getegid();
    return {{{USRQUOTA, "-u", user, "user " + std::to_string(user)},
             {GRPQUOTA, "-g", group, "group " + std::to_string(group)}}};
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

}  // namespace

std::optional<std::vector<Quota>> kernel_quotas(const fs::path& directory) {
#ifdef SYS_quotactl_fd
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return std::nullopt;
    }
    std::vector<Quota> quotas;
    for (const Owner& owner : owners_of_new_files(directory)) {
        struct dqblk block {};
        if (::syscall(SYS_quotactl_fd, fd, QCMD(Q_GETQUOTA, owner.kind), owner.id, &block) == 0) {
            quotas.push_back({owner.text,
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
    for (const Owner& owner : owners_of_new_files(directory)) {
        std::string said;
        const auto ending =
            process::run({*lfs,
                          {"quota", "-q", owner.flag, std::to_string(owner.id),
                           fs::absolute(directory).string()},
                          {},
                          kQuotaLimit_s,
                          [&](std::string_view line) { said += std::string(line) + "\n"; }});
        const auto quota =
            ending && ending->is_success() ? parse_lfs_quota(said, owner.text) : std::nullopt;
        if (quota) {
            quotas.push_back(*quota);
        }
    }
    return quotas.empty() ? std::nullopt : std::optional(std::move(quotas));
}

}  // namespace shardweld::publish

#include "traces.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "renames.hpp"

namespace shardweld::publish {

bool contains_current_directory(const fs::path& directory) {
    std::error_code failed;
    const auto current = fs::current_path(failed);
    return !failed && io::is_within(current, directory);
}

bool is_mount_point(const fs::path& directory) {
    struct stat inner {};
    struct stat outer {};
    if (::stat(directory.c_str(), &inner) != 0 ||
        ::stat(directory.parent_path().c_str(), &outer) != 0) {
        io::throw_errno(errno, "look at", directory);
    }
    return inner.st_dev != outer.st_dev;
}

std::string number_of(const fs::path& directory) {
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) {
        io::throw_errno(errno, "examine", directory);
    }
    return std::to_string(status.st_ino);
}

DiskUse disk_use(const fs::path& path) {
    DiskUse use;
    const auto add = [&](const fs::path& one) {
        struct stat status {};
        if (::lstat(one.c_str(), &status) == 0) {
            use.bytes += static_cast<Bytes>(status.st_blocks) * 512;
            use.last_write = std::max(use.last_write, status.st_mtim.tv_sec);
        }
    };
    add(path);
    std::error_code failed;
    for (fs::recursive_directory_iterator at(path, failed), end; !failed && at != end;
         at.increment(failed)) {
        add(at->path());
    }
    return use;
}

namespace {

/// In the journal: "SIZE NAME" and a zero byte for each file.
constexpr const char* kMoves = "moves";
constexpr Bytes kLongestMoves = Bytes{64} << 20U;

bool is_trace(const fs::path& name) {
    return name == kPartialTrace || name.string().starts_with(kLockTrace);
}

/// A regular file's size; nullopt of everything else.
std::optional<Bytes> size_of_file(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
        if (!io::means_absent(errno)) {
            io::throw_errno(errno, "examine", path);
        }
        return std::nullopt;
    }
    return S_ISREG(status.st_mode) ? std::optional(static_cast<Bytes>(status.st_size))
                                   : std::nullopt;
}

/// Whether a name leads to something below the directory that it is put behind, and not to traces.
bool is_below(const fs::path& name) {
    return !name.empty() && name.is_relative() && name == name.lexically_normal() &&
           *name.begin() != ".." && *name.begin() != "." && !is_trace(*name.begin());
}

/// Sizes by name; empty where nothing was noted.
std::map<fs::path, Bytes> noted_in(const fs::path& partial) {
    const fs::path path = partial / kJournal / kMoves;
    std::map<fs::path, Bytes> noted;
    if (!size_of_file(path)) {
        return noted;
    }
    const std::string text = io::read_text(path, kLongestMoves);
    auto lines = split(text, '\0');
    lines.pop_back();  // behind the last zero byte
    for (const std::string_view line : lines) {
        const auto blank = std::min(line.find(' '), line.size());
        const auto size = parse_index(line.substr(0, blank));
        const fs::path name = line.substr(std::min(blank + 1, line.size()));
        if (size && is_below(name)) {
            noted[name] = static_cast<Bytes>(*size);
        }
    }
    return noted;
}

}  // namespace

bool has_content(const io::Directory& directory) {
    const auto entries = io::listed(directory);
    return std::ranges::any_of(entries,
                               [](const io::Below& entry) { return !is_trace(entry.name); });
}

bool holds_work(const fs::path& partial) {
    if (fs::is_symlink(partial) || !io::is_directory(partial / kJournal)) {
        return false;
    }
    const auto entries = io::entries_of(partial / kJournal);
    return std::ranges::any_of(entries, [](const fs::directory_entry& entry) {
        const char first = entry.path().filename().string().front();
        return first >= '0' && first <= '9' && entry.is_regular_file() && entry.file_size() > 0;
    });
}

bool is_half_published(const fs::path& target) {
    if (!holds_work(target / kPartialTrace)) {
        return false;
    }
    std::set<fs::path> own;
    for (const fs::path& file : moved_files(target)) {
        for (fs::path name = file; !name.empty(); name = name.parent_path()) {
            own.insert(name);
        }
    }
    // The top first: what is not ours is not searched.
    const auto are_own = [&](const std::vector<fs::directory_entry>& entries) {
        return std::ranges::all_of(entries, [&](const fs::directory_entry& entry) {
            const fs::path name = entry.path().lexically_relative(target);
            return is_trace(*name.begin()) || own.contains(name);
        });
    };
    return are_own(io::entries_of(target)) && are_own(io::entries_below(target));
}

void note_moves(const fs::path& partial, const std::vector<fs::path>& files, bool sync) {
    const fs::path journal = partial / kJournal;
    if (!io::is_directory(journal)) {
        return;
    }
    std::string text;
    for (const fs::path& file : files) {
        text += std::to_string(size_of_file(partial / file).value_or(0)) + " " + file.string();
        text += '\0';
    }
    io::write_text(journal / kMoves, text, sync);
    if (sync) {
        io::sync_directory(journal);
    }
}

std::vector<fs::path> moved_files(const fs::path& target) {
    const fs::path partial = target / kPartialTrace;
    std::vector<fs::path> moved;
    for (const auto& [name, size] : noted_in(partial)) {
        if (size_of_file(target / name) == size &&
            io::kind_at(partial / name) == io::FileKind::none) {
            moved.push_back(name);
        }
    }
    return moved;
}

void move_back(const fs::path& target) {
    const fs::path partial = target / kPartialTrace;
    const io::Directory from(target);
    const io::Directory to(from, kPartialTrace);
    Renames for_good;
    for (const fs::path& file : moved_files(target)) {
        for_good.make_directories({to, file.parent_path()});
        for_good.rename({from, file}, {to, file});
    }
    // Directories that were made for them, as far as nothing else is in them.
    for (const auto& [file, size] : noted_in(partial)) {
        for (fs::path name = file.parent_path(); !name.empty(); name = name.parent_path()) {
            (void)::rmdir((target / name).c_str());
        }
    }
    // Forgotten when all are back: what a run removes from there later was not moved.
    io::sync_directory(partial);
    io::sync_directory(target);
    std::error_code failed;
    fs::remove(partial / kJournal / kMoves, failed);
    if (failed) {
        io::throw_errno(failed.value(), "remove", partial / kJournal / kMoves);
    }
}

namespace {

std::string octal(mode_t mode) {
    return formatted("%04o", mode & 07777U);
}

struct stat look_at(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
        io::throw_errno(errno, "examine", path);
    }
    return status;
}

/// The umask can only be read by setting it.
mode_t current_umask() {
    const mode_t mask = ::umask(0077);
    (void)::umask(mask);
    return mask;
}

/// The bits by which somebody else may write, that this run would not set itself.
mode_t foreign_bits(const fs::path& partial) {
    mode_t bits = current_umask() & (S_IWGRP | S_IWOTH);
    const struct stat above = look_at(partial.parent_path());
    if ((above.st_mode & S_IWGRP) != 0 && above.st_gid == look_at(partial).st_gid) {
        bits &= ~static_cast<mode_t>(S_IWGRP);
    }
    return bits;
}

/// Why this is no work of the owner's alone; "" if it is.
std::string fault_of(const struct stat& status, mode_t kind, uid_t owner, mode_t foreign) {
    if ((status.st_mode & S_IFMT) != kind) {
        return kind == S_IFDIR ? "is not a directory" : "is not a regular file";
    }
    if (status.st_uid != owner) {
        return "belongs to user " + std::to_string(status.st_uid) + ", not to user " +
               std::to_string(owner) + " who runs this";
    }
    if ((status.st_mode & foreign) != 0) {
        return "is writable by others (mode " + octal(status.st_mode) + ")";
    }
    return kind == S_IFREG && status.st_nlink != 1 ? "has other names (hard links)" : "";
}

}  // namespace

uid_t owner_of_new_files(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_uid : ::geteuid();
}

void require_own_work(const fs::path& partial, uid_t owner) {
    const mode_t foreign = foreign_bits(partial);
    const auto require = [&](const fs::path& path, mode_t kind) {
        if (const std::string why = fault_of(look_at(path), kind, owner, foreign); !why.empty()) {
            throw Error(
                ErrorCode::target,
                "cannot continue the earlier merge: " + printable(path.string(), 1000) + " " + why +
                    ", and what it says was written is believed",
                "start from the beginning with --restart, which removes " + partial.string());
        }
    };
    const fs::path journal = partial / kJournal;
    require(partial, S_IFDIR);
    require(journal, S_IFDIR);
    for (const fs::directory_entry& entry : io::entries_of(journal)) {
        require(entry.path(), S_IFREG);
    }
}

}  // namespace shardweld::publish

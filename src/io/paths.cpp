#include "paths.hpp"

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "errno.hpp"
#include "listed_once.hpp"

namespace shardweld::io {

namespace {

template <typename Iterator>
std::vector<fs::directory_entry> all_of(const fs::path& directory) {
    std::error_code failed;
    std::vector<fs::directory_entry> entries;
    do {
        entries.clear();
        for (Iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
            entries.push_back(*at);
        }
    } while (failed == std::errc::interrupted);
    if (failed) {
        throw_errno(failed.value(), "read directory", directory);
    }
    return entries;
}

/// What a directory's listing has told of a path; nullopt where there is none, or of a link.
std::optional<FileKind> kind_listed(const fs::path& path) {
    const ListedOnce* const known = ListedOnce::current();
    const auto found = known == nullptr ? std::nullopt : known->find(path);
    if (!found) {
        return std::nullopt;
    }
    const fs::directory_entry* const entry = *found;
    if (entry == nullptr) {
        return FileKind::none;
    }
    std::error_code failed;
    if (entry->is_symlink(failed) || failed) {
        return std::nullopt;
    }
    const bool is_directory = entry->is_directory(failed);
    const bool is_file = !failed && entry->is_regular_file(failed);
    return failed         ? std::nullopt
           : is_directory ? std::optional(FileKind::directory)
           : is_file      ? std::optional(FileKind::file)
                          : std::optional(FileKind::other);
}

}  // namespace

fs::path resolved(const fs::path& path) {
    std::error_code failed;
    fs::path whole = fs::weakly_canonical(fs::absolute(path), failed);
    if (failed) {
        throw_errno(failed.value(), "resolve", path);
    }
    return whole.has_filename() ? whole : whole.parent_path();
}

fs::path without_dots(const fs::path& path) {
    fs::path result;
    for (const fs::path& part : fs::absolute(path)) {
        if (part == "..") {
            result = resolved(result).parent_path();
        } else if (!part.empty() && part != ".") {
            result /= part;
        }
    }
    return result;
}

bool is_within(const fs::path& path, const fs::path& directory) {
    const fs::path relative = path.lexically_relative(directory);
    return !relative.empty() && *relative.begin() != "..";
}

std::string shown(const fs::path& path) {
    std::error_code failed;
    const fs::path here = fs::current_path(failed);
    const bool is_below = !failed && path.is_absolute() && path != here && is_within(path, here);
    return (is_below ? path.lexically_relative(here) : path).string();
}

bool means_absent(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

FileKind kind_at(const fs::path& path) {
    if (const auto kind = kind_listed(path)) {
        return *kind;
    }
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        if (!means_absent(errno)) {
            throw_errno(errno, "examine", path);
        }
        return FileKind::none;
    }
    return S_ISREG(status.st_mode)   ? FileKind::file
           : S_ISDIR(status.st_mode) ? FileKind::directory
                                     : FileKind::other;
}

std::vector<fs::directory_entry> entries_of(const fs::path& directory) {
    ListedOnce* const known = ListedOnce::current();
    const auto* const entries = known == nullptr ? nullptr : known->entries_of(directory);
    if (entries != nullptr) {
        return *entries;
    }
    auto listed = all_of<fs::directory_iterator>(directory);
    return known == nullptr ? listed : known->keep(directory, std::move(listed));
}

std::vector<fs::directory_entry> entries_below(const fs::path& directory) {
    return all_of<fs::recursive_directory_iterator>(directory);
}

}  // namespace shardweld::io

// Where paths lead, and what lies there.
#pragma once

#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::io {

/// The path made absolute, without a trailing slash, links resolved as far as it exists. Error(io).
fs::path resolved(const fs::path& path);

/// The path made absolute, without ".", ".." and a trailing slash. Links stay but for those that
/// ".." follows, which is then the directory above the link's end, as for the system. Error(io).
fs::path without_dots(const fs::path& path);

/// Whether `path` is `directory` or lies below it; both resolved. Pure.
bool is_within(const fs::path& path, const fs::path& directory);

/// As who looks at it would type it: relative where it lies below the current directory.
std::string shown(const fs::path& path);

/// What a path leads to.
enum class FileKind { none, file, directory, other };

/// Links followed; `none` also for a link to nothing. Error(io) when the system cannot tell: what
/// cannot be looked at must not pass for absent.
FileKind kind_at(const fs::path& path);

/// Whether an errno says that there is nothing, or can be nothing, of that name.
bool means_absent(int error);

inline bool is_file(const fs::path& path) {
    return kind_at(path) == FileKind::file;
}
inline bool is_directory(const fs::path& path) {
    return kind_at(path) == FileKind::directory;
}

/// The entries of a directory, in no order. Error(not_found) when there is none, Error(io) naming
/// it when it cannot be read.
std::vector<fs::directory_entry> entries_of(const fs::path& directory);

/// Everything below a directory; links to directories are not followed.
std::vector<fs::directory_entry> entries_below(const fs::path& directory);

}  // namespace shardweld::io

// What lies at a path. Knows paths; a failure to look is an error here, never an absence.
#pragma once

#include <filesystem>

namespace shardweld::io {

enum class FileKind { none, file, directory, other };

/// Links followed; `none` also for a link to nothing. Error(io) when the system cannot tell: what
/// cannot be looked at must not pass for absent.
FileKind kind_at(const std::filesystem::path& path);

/// Whether an errno says that there is nothing, or can be nothing, of that name.
bool means_absent(int error);

inline bool is_file(const std::filesystem::path& path) {
    return kind_at(path) == FileKind::file;
}
inline bool is_directory(const std::filesystem::path& path) {
    return kind_at(path) == FileKind::directory;
}

}  // namespace shardweld::io

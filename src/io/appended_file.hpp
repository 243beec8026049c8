// Files that may be there already, written without following or waiting for what else may be.
#pragma once

#include <string_view>

#include "core/path.hpp"

namespace shardweld::io {

class Directory;

/// A file that grows: runs follow each other.
class AppendedFile {
  public:
    /// Makes it where there is none. Error(io), also where it is a link or no regular file;
    /// Error(space).
    AppendedFile(const Directory& directory, const fs::path& name);
    ~AppendedFile();
    AppendedFile(const AppendedFile&) = delete;
    AppendedFile& operator=(const AppendedFile&) = delete;
    AppendedFile(AppendedFile&&) = delete;
    AppendedFile& operator=(AppendedFile&&) = delete;

    /// In one write(2). Whether all of it is written; errno says why not.
    [[nodiscard]] bool add(std::string_view text) const;

  private:
    int fd_ = -1;
};

/// What opening to write with O_CREAT, O_NOFOLLOW and O_NONBLOCK gave: Error(io) unless it is a
/// regular file, and the descriptor is closed; Error(space).
void require_regular(int fd, const fs::path& path);

}  // namespace shardweld::io

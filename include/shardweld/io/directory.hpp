// A directory that stays the same one, whatever becomes of its name.
// Knows a descriptor; nothing of what lies in it.
#pragma once

#include <filesystem>
#include <memory>

namespace shardweld::io {

namespace fs = std::filesystem;

/// The directory that had a path when this was made. It is held open, so that no other one can be
/// taken for it. Copies share the descriptor.
class Directory {
  public:
    /// Implicit: who is given a path means the directory that is there now, or none. Never fails:
    /// when it cannot be opened, require_same() says so.
    Directory(const fs::path& path);  // NOLINT(google-explicit-constructor)

    [[nodiscard]] const fs::path& path() const { return path_; }

    /// Error(target) when its path leads to another directory by now, or to none; Error(io) when
    /// that cannot be seen. What was opened by path before this returns lies in this directory.
    void require_same() const;

  private:
    fs::path path_;
    std::shared_ptr<const int> fd_;  ///< null: there was none
    int error_ = 0;                  ///< why it could not be opened
};

}  // namespace shardweld::io

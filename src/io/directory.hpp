// A directory that stays the same one, whatever becomes of its name, and what is done below it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

#include "descriptor.hpp"

namespace shardweld::io {

/// The directory that had a path when this was made. It is held open, so that no other one can be
/// taken for it. Copies share the descriptor.
class Directory {
  public:
    /// Implicit: who is given a path means the directory that is there now, or none. Never fails:
    /// when it cannot be opened, require_same() says so.
    Directory(const fs::path& path);  // NOLINT(google-explicit-constructor)
    /// The one of that name below another; no link. Error(target) when there is none, Error(io).
    Directory(const Directory& above, const fs::path& name);

    [[nodiscard]] const fs::path& path() const { return path_; }

    /// Error(target) when its path now leads to another directory, or to none; Error(io) when
    /// that cannot be seen. What was opened by path before this returns lies in this directory.
    void require_same() const;
    /// Whether a name below `above` (not followed) is this directory.
    [[nodiscard]] bool is_at(const Directory& above, const fs::path& name) const;

    /// For calls such as openat(2); of O_PATH. Error(target) when there is no directory.
    [[nodiscard]] int fd() const;

  private:
    fs::path path_;
    std::shared_ptr<const Descriptor> fd_;  ///< null: there was none
    int error_ = 0;                         ///< why it could not be opened
};

/// Which file lies under a name.
struct Identity {
    std::uint64_t inode = 0;  ///< 0: not known
    Bytes size = 0;
    std::uint32_t mode = 0;  ///< kind and rights, of st_mode
    friend bool operator==(const Identity&, const Identity&) = default;
};

/// Files below a directory by their names.
using Identities = std::map<fs::path, Identity>;

/// Identity of a name below a directory, links not followed; nullopt: nothing is there. Error(io).
std::optional<Identity> identity_at(const Directory& directory, const fs::path& name);
/// Identity of an open file; `path` is for the message. Error(io).
Identity identity_of(int fd, const fs::path& path);

struct Below {
    fs::path name;  ///< relative to the directory that was listed
    bool is_directory = false;
};
/// What lies in a directory. Error(io).
std::vector<Below> listed(const Directory& directory);
/// Lists everything below it; what a directory holds comes before it. Links are not followed.
/// Error(io).
std::vector<Below> listed_below(const Directory& directory);

/// Removes what has this name, with everything below; nothing when there is nothing. Error(io).
void remove_below(const Directory& directory, const fs::path& name);

/// mkdir -p below a directory, where no link is followed. What was made, outermost first.
/// Error(target) when something else has such a name; Error(io), Error(space).
std::vector<fs::path> make_below(const Directory& directory, const fs::path& name);

/// fsync. Error(io).
void sync(const Directory& directory);
/// fsync of an open directory, whose descriptor it closes. Error(io) names `path`.
void sync_and_close(int directory, const fs::path& path);

}  // namespace shardweld::io

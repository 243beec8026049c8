// Renames that are all done, or taken back.
#pragma once

#include <string>
#include <vector>

#include "core/path.hpp"
#include "io/directory.hpp"

namespace shardweld::publish {

/// A name below a directory, even if that was renamed.
struct NameInDirectory {
    io::Directory directory;
    fs::path name;
    [[nodiscard]] fs::path path() const { return directory.path() / name; }
};

/// Renames that are taken back unless all are done.
class Renames {
  public:
    /// renameat(2). Error(io), Error(space), Error(not_found).
    void rename(const NameInDirectory& from, const NameInDirectory& to);
    /// Two names change places in one step; false where the file system cannot. Error(io).
    bool exchange(const NameInDirectory& a, const NameInDirectory& b);

    /// mkdir -p. Error(io), Error(space), Error(target).
    void make_directories(const NameInDirectory& place);

    /// Takes all back, the last one first; directories made go if nothing else is in them. The
    /// names that could not be given back; "" if all were.
    std::string undo() noexcept;

  private:
    struct Done {
        NameInDirectory from;
        NameInDirectory to;
        unsigned flags = 0;  ///< of renameat2(2)
    };
    /// Whether it was done; what the system says otherwise is in errno.
    bool try_one(const Done& step);

    std::vector<Done> done_;
    std::vector<NameInDirectory> made_;  ///< directories
};

}  // namespace shardweld::publish

// Renames that are all done, or taken back.
// Knows paths; nothing of why they are renamed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shardweld::publish {

namespace fs = std::filesystem;

class Renames {
  public:
    /// rename(2). Error(io), Error(space).
    void rename(const fs::path& from, const fs::path& to);
    /// Two names change places in one step; false where the file system cannot. Error(io).
    bool exchange(const fs::path& a, const fs::path& b);

    /// mkdir -p. Error(io), Error(space).
    void make_directories(const fs::path& directory);

    /// Takes all back, the last one first; directories made go if nothing else is in them. The
    /// names that could not be given back; "" if all were.
    std::string undo() noexcept;

  private:
    struct Done {
        fs::path from;
        fs::path to;
        unsigned flags = 0;  ///< of renameat2(2)
    };
    /// Whether it was done; what the system says otherwise is in errno.
    bool try_one(const Done& step);

    std::vector<Done> done_;
    std::vector<fs::path> made_;  ///< directories
};

}  // namespace shardweld::publish

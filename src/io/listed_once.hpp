// Directories that are listed once for a look at what is there.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/path.hpp"

namespace shardweld::io {

/// While one lives, its thread lists no directory twice: what entries_of() has found once is what
/// it finds again, and kind_at() is answered by it, without a call for each file. For a look at
/// what is there at one time. One that lies inside another changes nothing.
class ListedOnce {
  public:
    using Entries = std::vector<fs::directory_entry>;

    ListedOnce();
    ~ListedOnce();
    ListedOnce(const ListedOnce&) = delete;
    ListedOnce& operator=(const ListedOnce&) = delete;

    /// This thread's; null: it remembers nothing.
    static ListedOnce* current();

    /// What a directory was found to hold; null where it was not listed.
    [[nodiscard]] const Entries* entries_of(const fs::path& directory) const;
    const Entries& keep(const fs::path& directory, Entries entries);
    /// A name in a directory that was listed; null: it was not there. nullopt where it was not
    /// listed.
    [[nodiscard]] std::optional<const fs::directory_entry*> find(const fs::path& path) const;

  private:
    struct ListedEntries {
        Entries entries;
        std::unordered_map<std::string, std::size_t> by_name;
    };
    [[nodiscard]] const ListedEntries* listing_of(const fs::path& directory) const;

    std::unordered_map<std::string, ListedEntries> listings_;
    bool is_outermost_;
};

}  // namespace shardweld::io

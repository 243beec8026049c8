// What files were when they were opened, for one who wants to know it without asking again.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/path.hpp"

#include "stamp.hpp"

namespace shardweld::io {

/// While it lives, it keeps the stamp of each file that InputFile::open(path) opens, in any thread
/// of this process. Several may live at the same time.
class Openings {
  public:
    Openings();
    ~Openings();
    Openings(const Openings&) = delete;
    Openings& operator=(const Openings&) = delete;

    /// What the file was when it was first opened by this path; nullopt if it was not.
    [[nodiscard]] std::optional<FileStamp> stamp_of(const fs::path& path) const;

    /// For InputFile: tells all that live. Any thread.
    static void record_opening(const fs::path& path, const FileStamp& stamp);

  private:
    mutable std::mutex mutex_;
    std::unordered_map<std::string, FileStamp> stamps_;
};

}  // namespace shardweld::io

// What has been sent to a store, written down file by file.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::upload {

/// A file as it was when it was sent: by its time, or, where its bytes are known, by these.
struct PutFile {
    Bytes size = 0;
    Index modified_ns = 0;
    std::string digest = {};

    friend bool operator==(const PutFile&, const PutFile&) = default;
};

/// The file as it is now. Error(io), Error(not_found).
PutFile look_at(const fs::path& file);

class PutRecord {
  public:
    /// Reads what there is. A line that was cut short, as by a kill, counts for nothing; what is
    /// no record at all is an empty one.
    explicit PutRecord(fs::path file);

    /// Whether the file is where the command, or another way to a store, puts it, as it is now.
    [[nodiscard]] bool has(const std::string& command, const std::string& name,
                           const PutFile& now) const;
    /// Adds a line. Whether it is written; where not, it is known until the end only.
    bool add(const std::string& command, const std::string& name, const PutFile& file);

  private:
    fs::path file_;
    std::map<std::pair<std::string, std::string>, PutFile> files_;  ///< by command and name
};

}  // namespace shardweld::upload

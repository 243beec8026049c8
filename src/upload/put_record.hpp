// What has been sent to a place, written down file by file.
#pragma once

#include <map>
#include <string>

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

/// Where files are sent.
struct PutPlace {
    std::string key;    ///< no other place has it
    std::string shown;  ///< for people
};

class PutRecord {
  public:
    /// Reads what there is of this place. A line that was cut short, as by a kill, counts for
    /// nothing; what is no record at all is an empty one.
    PutRecord(fs::path file, PutPlace place);

    /// Whether the file was sent to the place as it is now.
    [[nodiscard]] bool has(const std::string& name, const PutFile& now) const;
    /// Adds a line. Whether it is written; where not, it is known until the end only.
    bool add(const std::string& name, const PutFile& file);

  private:
    fs::path file_;
    PutPlace place_;
    std::map<std::string, PutFile> files_;
};

}  // namespace shardweld::upload

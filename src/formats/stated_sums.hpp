// The CRC-32s that the archives of a checkpoint's files state of their records.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "containers/zip.hpp"
#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::formats {

struct DcpMetadata;

/// The checksums that one file states of itself.
struct FileSums {
    std::vector<ZipEntry> records;  ///< of archives
    std::vector<FingerprintPlace> fingerprints;
};

/// Finds the checksums that the files of one checkpoint state.
class StatedSums {
  public:
    /// For the files of a checkpoint in `directory`. Where it has an index of
    /// torch.distributed.checkpoint, that tells where the archives lie; else each file is one, or
    /// none. Local. Error(corrupt) where the index is damaged.
    explicit StatedSums(const fs::path& directory);

    /// The sums in a file of the directory, none for records without one. Local. Error(corrupt) for
    /// a damaged archive, Error(unsupported) where a sum is not where the archive's form has it.
    [[nodiscard]] FileSums of(const std::string& file) const;

  private:
    void add_index(const DcpMetadata& metadata);

    fs::path directory_;
    bool has_index_ = false;
    std::map<std::string, std::vector<std::pair<Bytes, Bytes>>> archives_;  ///< begin and size
};

}  // namespace shardweld::formats

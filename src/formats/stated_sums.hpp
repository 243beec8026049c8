// The CRC-32s that the archives of a checkpoint's files state of their records.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::formats {

struct DcpMetadata;

/// A record of an archive, and where its file states the CRC-32, twice.
struct RecordSum {
    Bytes begin = 0;  ///< from the start of the file
    Bytes size = 0;
    std::array<Bytes, 2> places = {};
};

/// torch's fingerprint of an archive: digits that follow from the CRC-32s of its records.
struct SaveFingerprint {
    Bytes record = 0;             ///< where the record of the fingerprint begins
    Bytes digits = 0;             ///< where those digits begin, which end with the record
    std::array<Bytes, 2> own{};   ///< where the CRC-32 of the record is
    std::vector<RecordSum> of{};  ///< the records
};

/// The checksums that one file states of itself.
struct FileSums {
    std::vector<RecordSum> records;
    std::vector<SaveFingerprint> fingerprints;
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

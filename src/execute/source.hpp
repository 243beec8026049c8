// Where a plan's files are read from, and how.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "catalogue/file.hpp"
#include "core/path.hpp"
#include "io/stamp.hpp"
#include "io/throttle.hpp"

namespace shardweld::execute {

class RecordSums;

/// Where the plan's files lie for this rank.
struct SourceFiles {
    fs::path directory;  ///< of the shard files, as this rank sees it
    const std::vector<catalogue::File>* files = nullptr;
    std::size_t max_open = 64;  ///< descriptors kept open
    /// What this rank reads and writes keeps to it; null: as fast as it goes.
    std::shared_ptr<io::Throttle> throttle = nullptr;
    /// Told every file before it is opened for tensor data, read or written; from any thread.
    std::function<void(const fs::path&)> on_open = {};
    /// What each file was as this rank saw it before its metadata was read; null: the first opening
    /// counts.
    const std::vector<io::FileStamp>* stamps = nullptr;
    /// Receives everything that is read of tensors; null: checksums are not checked.
    std::shared_ptr<RecordSums> sums = nullptr;
    /// Others read the same files: what was read of cold ones stays in the page cache.
    bool stays_cached = false;
};

}  // namespace shardweld::execute

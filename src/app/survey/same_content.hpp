// Whether what several nodes hold under one name is one file, or has the same contents.
// Knows file names, sizes and a few blocks; nothing of formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "io/stamp.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

struct Views;

/// What the system says about a file.
struct FileStatus {
    Index size = -1;             ///< bytes; -1: not seen
    std::uint64_t identity = 0;  ///< from inode and modification time: equal where it is one file
    io::FileStamp stamp = {};    ///< modified_ns -1: not seen
    bool is_forbidden = false;   ///< seen, but this user may not read it
};

/// By group, then by file.
using Looks = std::vector<std::vector<FileStatus>>;

/// Error(io) when the system cannot tell.
FileStatus look_at(const fs::path& file);

/// Files that two groups see with one size but as two files, at most `limit` of them, spread
/// evenly.
std::vector<std::size_t> doubtful(const Looks& looks, std::size_t limit);

/// Collective. Compares the contents of doubtful files, 16 blocks of 4 KiB each, of 64 files at
/// most: two checkpoints of one run differ nearly everywhere. Error(mismatch) with the first file
/// that differs.
void check_same_content(mpi::Comm& comm, const Views& views, const Looks& looks,
                        const fs::path& directory, const std::vector<std::string>& files);

}  // namespace shardweld::app

// What plain parallel reads and writes reach in one place: the roof of every merge there.
#pragma once

#include "core/index.hpp"
#include "core/path.hpp"
#include "mpi/comm.hpp"

#include "concatenated_files.hpp"

namespace shardweld::bench {

/// What is measured, the same on every rank.
struct PlainIo {
    fs::path directory;        ///< where files are made; all ranks see it
    ConcatenatedFiles source;  ///< read and copied
    bool sync = true;          ///< fsync what is written, as a merge does
    bool copies_only = false;  ///< leave out the passes that only write and only read
    bool is_cold = false;      ///< first drop the source from the page cache
};

struct Pass {
    Bytes bytes = 0;    ///< that all ranks together read, wrote, or read and wrote
    double wall_s = 0;  ///< from barrier to barrier
    double cpu_s = 0;   ///< of all ranks together
    [[nodiscard]] double gbs() const;
};

struct Measured {
    Pass write, read, copy;
    Pass copy_behind;  ///< as a merge may do it: to the disk at once, pages used again
    /// The faster way of copying.
    [[nodiscard]] const Pass& roof() const;

    Bytes stayed_cached = 0;  ///< of what should have been dropped: the most of any pass
};

/// Collective. Measures writing of new files, reading, and copying (every byte read once and
/// written once), in turns. Makes files in `directory` and removes them; they stay when it throws.
/// Needs room for the source's size. Error(io), Error(space), Error(corrupt) when a source file
/// changes.
Measured measure(mpi::Comm& comm, const PlainIo& bench);

}  // namespace shardweld::bench

// What plain parallel reads and writes reach in one place: the roof of every merge there.
#pragma once

#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "mpi/comm.hpp"

#include "concatenated_files.hpp"

namespace shardweld::measure {

/// What is measured, the same on every rank.
struct Bench {
    fs::path directory;        ///< where files are made; all ranks see it
    ConcatenatedFiles source;  ///< read and copied; empty: files made for it
    Bytes size = 0;            ///< written, and read and copied without a source
    Bytes file_size = 0;       ///< of the largest file made
    Bytes extent = 0;          ///< of one read and one write
    int n_repeats = 1;
    bool sync = true;          ///< fsync what is written, as a merge does
    bool copies_only = false;  ///< leave out the passes that only write and only read
    bool is_cold = false;      ///< first drop the source from the page cache
};

/// Many runs of one pass; rates are bytes / 1e9 / median wall seconds.
struct Pass {
    Bytes bytes = 0;             ///< that all ranks together read, wrote, or read and wrote
    std::vector<double> wall_s;  ///< of each run, from barrier to barrier
    std::vector<double> cpu_s;   ///< of each run, all ranks together
    [[nodiscard]] double median_s() const;
    [[nodiscard]] double median_cpu_s() const;
    [[nodiscard]] double gbs() const;
};

struct Measured {
    Pass write, read, copy;
    Pass copy_behind;  ///< as a merge may do it: to the disk at once, pages used again
    /// The faster way of copying.
    [[nodiscard]] const Pass& roof() const;

    Bytes stayed_cached = 0;  ///< of what should have been dropped: the most of any run
};

/// Collective. Measures writing of new files, reading, and copying (every byte read once and
/// written once), in turns. Makes files below `directory` and removes them; they stay when it
/// throws. Needs room for twice the size, or once with a source. Error(io), Error(space),
/// Error(corrupt) when a source file changes.
Measured run_bench(mpi::Comm& comm, const Bench& bench);

/// Bytes of a part of a file that are in the page cache. Where the system does not tell, all count:
/// it tells of files that one owns or may write (mincore(2)).
Bytes cached_bytes(int fd, Bytes offset, Bytes size);

}  // namespace shardweld::measure

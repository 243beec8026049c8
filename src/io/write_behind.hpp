// Brings written bytes to the disk while later ones are made, and gives their pages back.
#pragma once

#include <deque>

#include "core/index.hpp"

namespace shardweld::io {

class OutputFile;

/// Chooses by measurement whether written pages stay in the page cache. Pages that the machine has
/// not used for a while can cost more than the disk takes: then it is quicker to send bytes to the
/// disk at once and write the next ones to the same pages. The first bytes are sent at once while
/// their pages are being judged, so that a disk that is needed has not waited.
class Pace {
  public:
    /// Told after every write: its bytes and the seconds it took, by the wall clock and of this
    /// thread's processor.
    void next(Bytes bytes, double wall_s, double cpu_s);

    /// Whether to write behind.
    [[nodiscard]] bool is_behind() const { return is_behind_; }

  private:
    void choose_way();
    /// Whether what is written tells of the cache: the first bytes do, for their pages are new.
    [[nodiscard]] bool is_cache_judged() const { return cache_rate_ == 0 || !is_behind_; }

    bool is_behind_ = true;
    Bytes bytes_ = 0;  ///< since the last judgement
    double wall_s_ = 0;
    double cpu_s_ = 0;
    Bytes since_change_ = 0;
    double cache_rate_ = 0;  ///< bytes per second, 0: not known
    double behind_rate_ = 0;
};

/// The extents of one file that are on their way to the disk, a bounded number of bytes.
class WriteBehind {
  public:
    /// Takes note of written bytes and starts bringing them to the disk; waits for earlier ones
    /// when too many are on their way. Error(io), Error(space).
    void add(const OutputFile& file, Bytes offset, Bytes size);

    /// Waits for everything that is on its way; must be called before the file is closed.
    void finish(const OutputFile& file);

  private:
    struct Extent {
        Bytes begin = 0;
        Bytes end = 0;
    };
    void start(const OutputFile& file);
    void finish_oldest(const OutputFile& file);

    Extent open_;  ///< written, not yet started
    std::deque<Extent> on_the_way_;
    Bytes bytes_on_the_way_ = 0;
};

}  // namespace shardweld::io

// The ends of archives that lie one behind the other in a file: where one ends and the next begins
// is read at once, and small archives whole. Knows nothing of formats.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/index.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// An archive's bytes in its file.
struct ArchiveRange {
    Bytes begin = 0;
    Bytes bytes = 0;
};

/// A file of many archives costs about one read for each, and fewer where they are small.
class EdgeReads {
  public:
    /// `archives` lie inside `file`, which must outlive the reads, ascend and do not overlap.
    EdgeReads(const io::InputFile& file, std::span<const ArchiveRange> archives);

    /// `bytes` bytes at `offset` of the file, valid until the second next call that reads; empty
    /// where they are no ends of archives, or lie before what was asked for last.
    std::span<const std::byte> at(Bytes offset, Bytes bytes);

  private:
    struct Window {
        Bytes begin = 0;
        Bytes end = 0;
        [[nodiscard]] bool holds(Bytes offset, Bytes bytes) const {
            return offset >= begin && offset <= end && bytes <= end - offset;
        }
    };
    struct Held {
        Window window;
        std::vector<std::byte> bytes;
    };

    const io::InputFile* file_;
    std::vector<Window> windows_;  // ascending, apart from each other
    std::size_t next_ = 0;         // of the windows that were not read yet
    // An archive needs the one that holds its head and the one that holds its tail.
    std::array<Held, 2> held_;
    std::size_t oldest_ = 0;
};

}  // namespace shardweld::formats

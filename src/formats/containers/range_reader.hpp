// Reads parts of one range of a file with few system calls: the first and last pages are kept, and
// the ends of archives that lie one behind the other are read at once, small archives whole.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// How much of each end of an archive EdgeReads read: in front an archive of one tensor has its
/// pickle and headers, behind its directory. In 99 of 100 archives of the test checkpoints these
/// have at most 640 and 704 bytes.
inline constexpr Bytes kEdgeBytes = 1024;

/// An archive's bytes in its file.
struct ArchiveRange {
    Bytes begin = 0;
    Bytes bytes = 0;
};

/// Bytes of a file, or of a range of it, that are in memory.
struct HeldBytes {
    Bytes begin = 0;
    std::vector<std::byte> bytes;

    [[nodiscard]] bool holds(Bytes offset, Bytes size) const {
        return offset >= begin && offset - begin <= bytes.size() &&
               size <= bytes.size() - (offset - begin);
    }
    /// Those at `offset`, which it holds.
    [[nodiscard]] ByteView at(Bytes offset, Bytes size) const {
        return ByteView(bytes).subspan(offset - begin, size);
    }
};

/// A file of many archives costs about one read for each, and fewer where they are small.
class EdgeReads {
  public:
    /// `archives` lie inside `file`, which must outlive the reads, ascend and do not overlap.
    EdgeReads(const io::InputFile& file, std::span<const ArchiveRange> archives);

    /// `bytes` bytes at `offset` of the file, valid until the second next call that reads; empty
    /// where they are no ends of archives, or lie before what was asked for last.
    ByteView at(Bytes offset, Bytes bytes);

  private:
    const io::InputFile* file_;
    std::vector<ArchiveRange> windows_;  // ascending; each end of an archive lies in one
    std::size_t next_ = 0;               // of the windows that were not read yet
    // An archive needs the one that holds its head and the one that holds its tail.
    std::array<HeldBytes, 2> held_;
    std::size_t oldest_ = 0;
};

/// Reads small pieces of one file through two windows that are held in memory.
class RangeReader {
  public:
    /// The range [begin, begin + length) of `file`, which must outlive the reader. Error(corrupt)
    /// when it does not lie inside the file. What `edges` hold of it is taken from there.
    RangeReader(const io::InputFile& file, Bytes begin, Bytes length, EdgeReads* edges = nullptr);

    [[nodiscard]] Bytes begin() const { return begin_; }
    [[nodiscard]] Bytes length() const { return length_; }
    [[nodiscard]] const io::InputFile& file() const { return *file_; }

    /// `size` bytes at `offset` of the range, valid until the next call. Error(corrupt) naming
    /// `what` when they do not lie inside the range; nothing is allocated before that check.
    ByteView at(Bytes offset, Bytes size, std::string_view what);

    /// Those bytes as an owned copy in `memory`.
    std::vector<std::byte> copy(Bytes offset, Bytes size, std::string_view what,
                                std::vector<std::byte> memory = {});

  private:
    void check(Bytes offset, Bytes size, std::string_view what) const;
    void load(HeldBytes& window, Bytes offset, Bytes size) const;

    const io::InputFile* file_;
    EdgeReads* edges_;
    Bytes begin_;
    Bytes length_;
    Bytes tail_bytes_;
    HeldBytes head_;
    HeldBytes tail_;
    HeldBytes moving_;
};

}  // namespace shardweld::formats

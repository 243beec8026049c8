// Reads parts of one range of a file with few system calls: the first and last pages are kept.
// Knows nothing of formats. A blob of a sharded checkpoint needs two reads this way.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

class EdgeReads;

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
    std::span<const std::byte> at(Bytes offset, Bytes size, std::string_view what);

    /// The same as an owned copy, in `memory`.
    std::vector<std::byte> copy(Bytes offset, Bytes size, std::string_view what,
                                std::vector<std::byte> memory = {});

  private:
    struct Window {
        Bytes offset = 0;
        std::vector<std::byte> bytes;
        [[nodiscard]] bool holds(Bytes from, Bytes size) const;
    };
    void check(Bytes offset, Bytes size, std::string_view what) const;
    void load(Window& window, Bytes offset, Bytes size) const;

    const io::InputFile* file_;
    EdgeReads* edges_;
    Bytes begin_;
    Bytes length_;
    Bytes tail_bytes_;
    Window head_;
    Window tail_;
    Window moving_;
};

}  // namespace shardweld::formats

// Files of a line, opened when first used: for reading one at a time, for writing until they are
// closed together. Knows descriptors; nothing of clocks or ranks.
#pragma once

#include <map>
#include <span>

#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/write_behind.hpp"

#include "file_line.hpp"

namespace shardweld::measure {

/// Reads a line through one open file.
class LineReader {
  public:
    explicit LineReader(const FileLine& line) : line_(line) {}

    /// Fills `out` from a position of the line, across files. Error(corrupt) when a file has
    /// changed its size.
    void read(Bytes position, std::span<std::byte> out);
    /// The file of a part, for hints.
    const io::InputFile& file(std::size_t at);

  private:
    const FileLine& line_;
    io::InputFile open_;
    std::size_t at_ = 0;
};

/// Writes new files of a line.
class LineWriter {
  public:
    /// With `behind` what is written goes to the disk at once, and its pages are given back.
    LineWriter(const FileLine& line, bool behind) : line_(line), is_behind_(behind) {}

    /// Makes every n-th file from `first` on, full-sized, with its space reserved.
    void create(std::size_t first, std::size_t every) const;
    void write(const FilePart& part, std::span<const std::byte> bytes);
    /// Closes all, checked; with `sync` each is fsynced before.
    void finish(bool sync);

  private:
    const FileLine& line_;
    struct OpenTarget {
        io::OutputFile file;
        io::WriteBehind behind;
    };
    bool is_behind_;
    std::map<std::size_t, OpenTarget> open_;
};

}  // namespace shardweld::measure

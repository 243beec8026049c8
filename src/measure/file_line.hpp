// Files laid end to end as one line of bytes, and its even division among ranks.
#pragma once

#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::measure {

struct LineFile {
    fs::path path;
    Bytes size = 0;
};

/// Bytes of one file.
struct FilePart {
    std::size_t file = 0;
    Bytes offset = 0;  ///< from the start of the file
    Bytes size = 0;
    Bytes line_begin = 0;
    friend bool operator==(const FilePart&, const FilePart&) = default;
};

/// A part [begin, end) of the line.
struct LineStretch {
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const LineStretch&, const LineStretch&) = default;
};

class FileLine {
  public:
    FileLine() = default;
    explicit FileLine(std::vector<LineFile> files);
    /// `size` bytes in files of at most `file_size`, named by number, below `directory`.
    static FileLine make(const fs::path& directory, Bytes size, Bytes file_size);

    [[nodiscard]] const std::vector<LineFile>& files() const { return files_; }
    [[nodiscard]] Bytes size() const { return begins_.back(); }
    [[nodiscard]] bool empty() const { return files_.empty(); }

    /// The contiguous share of a rank. It begins at a file's begin or at a multiple of 4096 in a
    /// file: two ranks never write one page.
    [[nodiscard]] LineStretch share(int rank, int n_ranks) const;
    /// A stretch as parts of files, none longer than `extent`, which end at multiples of it in
    /// their file.
    [[nodiscard]] std::vector<FilePart> parts(LineStretch stretch, Bytes extent) const;

  private:
    [[nodiscard]] std::size_t file_at(Bytes position) const;
    [[nodiscard]] Bytes cut(int rank, int n_ranks) const;

    std::vector<LineFile> files_;
    std::vector<Bytes> begins_{0};  ///< of files on the line, and its end
};

}  // namespace shardweld::measure

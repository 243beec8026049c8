// Files laid end to end, and the even division of their bytes among ranks.
#pragma once

#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::bench {

struct SizedFile {
    fs::path path;
    Bytes size = 0;
};

/// Bytes of one file.
struct FilePart {
    std::size_t file = 0;
    Bytes offset = 0;  ///< from the start of the file
    Bytes size = 0;
    Bytes position = 0;  ///< of its first byte among those of all files
    friend bool operator==(const FilePart&, const FilePart&) = default;
};

/// A range [begin, end) of the bytes of all files.
struct ByteRange {
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

class ConcatenatedFiles {
  public:
    ConcatenatedFiles() = default;
    explicit ConcatenatedFiles(std::vector<SizedFile> files);
    /// `size` bytes in files of at most `file_size`, named by number, below `directory`.
    static ConcatenatedFiles make(const fs::path& directory, Bytes size, Bytes file_size);

    [[nodiscard]] const std::vector<SizedFile>& files() const { return files_; }
    [[nodiscard]] Bytes size() const { return begins_.back(); }
    [[nodiscard]] bool empty() const { return files_.empty(); }

    /// The contiguous share of a rank. It begins at a file's begin or at a multiple of 4096 in a
    /// file: two ranks never write one page.
    [[nodiscard]] ByteRange share(int rank, int n_ranks) const;
    /// A stretch as parts of files, none longer than `extent`, which end at multiples of it in
    /// their file.
    [[nodiscard]] std::vector<FilePart> parts(ByteRange stretch, Bytes extent) const;

  private:
    [[nodiscard]] std::size_t file_at(Bytes position) const;
    [[nodiscard]] Bytes cut(int rank, int n_ranks) const;

    std::vector<SizedFile> files_;
    std::vector<Bytes> begins_{0};  ///< of files among all bytes, and the end
};

}  // namespace shardweld::bench

// The source files that a rank has open, no more of them than it may.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "io/input_file.hpp"

#include "source.hpp"

namespace shardweld::execute {

/// A bounded set of open source files; the least recently used one is closed first. The page cache
/// keeps what it held before: of files that were not in it, nothing is left there at the end.
class OpenFiles {
  public:
    explicit OpenFiles(const SourceFiles& source)
        : source_(source), cached_(source.files->size()) {}
    ~OpenFiles();
    OpenFiles(const OpenFiles&) = delete;
    OpenFiles& operator=(const OpenFiles&) = delete;
    OpenFiles(OpenFiles&&) = delete;
    OpenFiles& operator=(OpenFiles&&) = delete;

    /// Error(io) when the file is no longer what the source says.
    const io::InputFile& get(std::uint32_t file);

    /// Has the kernel fetch bytes that are read later and are not in memory; opens their file only
    /// where none is closed for it.
    void announce(std::uint32_t file, Bytes offset, Bytes size);

    /// Says that these bytes of a file that `get` gave last are not read again by this rank.
    void done_with(std::uint32_t file, Bytes offset, Bytes size);

    /// Closes all. Error(io) when one of them was changed since it was first opened.
    void finish();

  private:
    struct OpenInput {
        std::uint32_t file = 0;
        io::InputFile opened;
        Bytes done_begin = 0;  ///< not read again, but perhaps in one page with what follows
        Bytes done_size = 0;
    };
    [[nodiscard]] io::FileStamp expected(std::uint32_t file) const;
    [[nodiscard]] bool is_cold(std::uint32_t file) const;
    void check_and_close_oldest();
    void close_oldest();

    const SourceFiles& source_;
    std::list<OpenInput> recent_;
    std::unordered_map<std::uint32_t, std::list<OpenInput>::iterator> by_file_;
    std::unordered_map<std::uint32_t, io::FileStamp> first_stamps_;  ///< where the source has none
    /// By file: the share of it that was in the page cache when it was first met.
    std::vector<std::optional<double>> cached_;
};

}  // namespace shardweld::execute

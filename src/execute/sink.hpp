// Writes finished parts of the output space to their files.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "io/directory.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/write_behind.hpp"
#include "plan/output_range.hpp"
#include "plan/plan.hpp"

#include "run_options.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// One rank's side of writing. A rank's part of the output space goes through the files in their
/// order, so one file is open at a time.
class Sink {
  public:
    /// Writes as `options` say, and keeps to the throttle of `source`. The plan and the options
    /// must outlive it.
    Sink(const plan::Plan& plan, io::Directory directory, const RunOptions& options,
         SourceFiles source)
        : plan_(plan),
          directory_(std::move(directory)),
          options_(options),
          source_(std::move(source)) {}

    /// Writes the bytes of a part of the output space (contiguous, in output order). Error(io),
    /// also when a file is not what was made any more; Error(space).
    void write(plan::OutputRange range, ByteView bytes);

    /// Brings everything written so far to the disk, where files are synced; they stay open.
    void sync();

    /// Brings to the disk (if asked to sync) and closes what is open, checked.
    void finish();

    [[nodiscard]] Bytes bytes_written() const { return bytes_written_; }

    /// Files that are done, open for reading: a quarter of the descriptors there may be, at most.
    [[nodiscard]] std::vector<io::InputFile> take_held() { return std::move(held_); }

  private:
    struct OpenOutput {
        std::uint32_t at = 0;  ///< index of the placement's file
        io::OutputFile file;
        std::optional<io::OutputFile> direct;
    };

    const OpenOutput& file(std::uint32_t at);
    void require_same_file(const OpenOutput& open);
    void keep_inode(const OpenOutput& open);
    void write_at(const OpenOutput& open, Bytes offset, ByteView bytes);
    void put_cached(const io::OutputFile& file, Bytes offset, ByteView bytes);
    /// Whether `slice`, the next of the output space, begins where `before` ends in its file.
    [[nodiscard]] bool follows(const plan::Slice& before, const plan::Slice& slice) const;

    const plan::Plan& plan_;
    io::Directory directory_;
    const RunOptions& options_;
    SourceFiles source_;
    std::optional<OpenOutput> open_;
    io::WriteBehind behind_;
    io::Pace pace_;
    Bytes bytes_written_ = 0;
    Bytes since_look_ = 0;
    std::vector<io::InputFile> held_;
};

}  // namespace shardweld::execute

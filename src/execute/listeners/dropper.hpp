// Gives the input's space back while the output is written (--drop_consumed): what is written,
// synced, read back and in the journal needs its input no more.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/path.hpp"
#include "execute/journal.hpp"
#include "execute/run_options.hpp"
#include "execute/source.hpp"
#include "io/directory.hpp"
#include "io/output_file.hpp"

#include "consumption.hpp"

namespace shardweld::execute {

/// One rank's. It lists the ranges of the input that are gone in a file of the journal for each
/// session (io::kDroppedEnding), of records of 32 bytes, little-endian: begin (8), end (8), file
/// (4), zero (4), xxh3-64 of the bytes before (8). A record is on the disk before its range is
/// given back.
class Dropper {
  public:
    /// `may_drop`: by file of the input, whether parts of it are given back. `options`: how the
    /// plan is executed, with a journal and the files that were made. These must outlive it. Reads
    /// what earlier sessions have given back: Error(io), Error(corrupt).
    Dropper(const plan::Plan& plan, SourceFiles source, const io::Directory& output,
            const RunOptions& options, std::vector<bool> may_drop, int rank);

    /// `done` is what earlier runs have done of the output and this one found right: rank 0 gives
    /// back what is left of its input. Error(corrupt) where something is not done, and its
    /// input is gone.
    void take_over(std::span<const plan::OutputRange> done);

    /// Blocks that are on the disk and in the journal: reads them back, and gives back what they
    /// were made of. Error(io) when they are not what was written.
    void drop_behind(std::span<const DoneBlock> blocks);

  private:
    void take(const DoneBlock& block, std::vector<FileRange>& freed);
    void require_written(std::span<const DoneBlock> blocks) const;
    void give_back(const std::vector<FileRange>& freed);
    void note(const std::vector<FileRange>& freed);

    const plan::Plan& plan_;
    SourceFiles source_;
    const io::Directory& output_;
    const RunOptions& options_;
    std::vector<bool> may_drop_;
    int rank_;
    BlockPlaces places_;
    Consumption consumption_;
    FreedRanges freed_;
    fs::path log_path_;
    io::OutputFile log_;
    Bytes log_size_ = 0;
};

}  // namespace shardweld::execute

// Which blocks of the output are on the disk, and the checksums of what was read for them: written
// down by each rank as it gets on, read by a later run.
#pragma once

#include <span>
#include <vector>

#include "core/path.hpp"
#include "io/digest.hpp"
#include "io/directory.hpp"
#include "io/output_file.hpp"
#include "numeric/census.hpp"
#include "plan/plan.hpp"

#include "record_sums.hpp"

namespace shardweld::execute {

using io::Digest;

/// A block of a written tensor: its elements [number * Plan::block_elements, ...), as far as it
/// reaches.
struct DoneBlock {
    Index number = 0;
    std::uint32_t tensor = 0;
    Digest digest{};  ///< of the written bytes
};

/// A block that a run has read back and found right, and what its elements look like.
struct SeenBlock {
    Index number = 0;
    std::uint32_t tensor = 0;
    numeric::Census census;  ///< nothing where numeric::is_counted does not know the type
};

/// Where blocks lie. `plan` must outlive it.
class BlockPlaces {
  public:
    explicit BlockPlaces(const plan::Plan& plan);

    /// Whether the plan has such a block; the others ask for one that it has.
    [[nodiscard]] bool has(const DoneBlock& block) const;
    [[nodiscard]] plan::OutputRange range(const DoneBlock& block) const;
    [[nodiscard]] plan::Slice slice(const DoneBlock& block) const;
    /// Blocks that are right together only: this one, and those of the tensors that are made with
    /// its own, strip by strip.
    [[nodiscard]] std::size_t n_together(const DoneBlock& block) const;
    [[nodiscard]] bool are_together(const DoneBlock& a, const DoneBlock& b) const;
    /// The ranges of all, united.
    [[nodiscard]] std::vector<plan::OutputRange> ranges(std::span<const DoneBlock> blocks) const;

    /// Blocks in all, and a block's place among them in output order.
    [[nodiscard]] std::size_t count() const { return n_blocks_; }
    [[nodiscard]] std::size_t index(const DoneBlock& block) const;

  private:
    struct Begin {
        Bytes output = 0;
        std::size_t block = 0;
    };
    /// The first of the tensors that are made together with one.
    [[nodiscard]] std::uint32_t first_of(std::uint32_t tensor) const;

    const plan::Plan& plan_;
    std::vector<Begin> begins_;  ///< by tensor; of those that are made together the first one's
    std::size_t n_blocks_ = 0;
};

/// How a journal was read.
struct JournalRead {
    std::vector<DoneBlock> blocks;  ///< in output order, each once: the latest session's word
    std::vector<RangeSum> sums;     ///< of input, in no order; not many more than blocks
    std::vector<SeenBlock> seen;    ///< those of the blocks that some run read back, in their order
    Index n_unreadable = 0;         ///< records cut short or damaged
    Index last_session = 0;         ///< 0: none
};

/// Reads all ranks' records of all sessions in `directory`; what is no whole record of a block of
/// the plan is counted and left out. Local. Memory is bounded by the plan's blocks. Error(io).
JournalRead read_journal(const fs::path& directory, const plan::Plan& plan);

/// What the records of a session take, of all ranks together: one for each block, and about as many
/// for the input. Pure.
Bytes journal_bytes(const plan::Plan& plan);

/// What a rank loses at most when its node dies.
inline constexpr Bytes kFlushBytes = Bytes{256} << 20U;
inline constexpr double kFlushSeconds = 5;
/// What a rank loses at most when it dies, does not sync and has much to write. Notes of every
/// write would wait for a disk that is busy with gigabytes, and who removes them then waits, too: a
/// sixth of the time of a merge of two seconds.
inline constexpr double kUnsyncedSeconds = 2;

/// Whether a run that does not sync has so much to write that it makes its first records after
/// kUnsyncedSeconds only. Pure.
bool is_noted_late(const plan::Plan& plan);

/// One rank's records of one session; the file is made with the first one.
///
/// Records have 40 bytes, little-endian. For a block: its number (8), tensor (4), zero (4), digest
/// (16), xxh3-64 of the bytes before (8); for a range of input: its begin (8), record (4), one (4),
/// end (8), CRC-32 (4), zero (4), the same xxh3-64; for a block that was read back: its number (8),
/// tensor (4), two (4), how many NaNs, infinities and zeros (21 bits each) and whether all elements
/// are alike (1), the bits of one (8), the same xxh3-64.
class Journal {
  public:
    Journal(const fs::path& directory, Index session, int rank, bool sync);

    /// Whether the directory is there: there are no records before.
    [[nodiscard]] bool is_begun();

    /// Appends blocks whose bytes are where they outlive this run, what was read meanwhile, and
    /// which blocks were read back. Error(target) when the directory above is not the one of
    /// before; Error(io), Error(space).
    void append(std::span<const DoneBlock> blocks, std::span<const RangeSum> sums = {},
                std::span<const SeenBlock> seen = {});

  private:
    io::Directory above_;
    fs::path path_;
    bool sync_;
    bool is_begun_ = false;
    io::OutputFile file_;
    Bytes size_ = 0;
};

}  // namespace shardweld::execute

#include "output_task.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

#include "round.hpp"
#include "run_options.hpp"
#include "tally.hpp"

namespace shardweld::execute {

namespace {

/// Gets a block that is as the journal says, and its bytes.
using OnReused =
    std::function<void(const DoneBlock& block, const plan::Slice& slice, ByteView bytes)>;

/// A rank's part of the blocks: runs of the list with about as many bytes each.
std::span<const DoneBlock> share_of(const std::vector<DoneBlock>& blocks, const BlockPlaces& places,
                                    const mpi::Comm& comm) {
    std::vector<Bytes> ends;
    Bytes total = 0;
    for (const DoneBlock& block : blocks) {
        const plan::OutputRange range = places.range(block);
        ends.push_back(total += range.end - range.begin);
    }
    const auto cut = [&](int rank) {
        const Bytes at = total / static_cast<Bytes>(comm.size()) * static_cast<Bytes>(rank);
        return rank == comm.size() ? ends.end() : std::ranges::upper_bound(ends, at);
    };
    const auto whole = [&](std::ptrdiff_t at) {
        while (at > 0 && at < std::ssize(blocks) &&
               places.are_together(blocks[static_cast<std::size_t>(at - 1)],
                                   blocks[static_cast<std::size_t>(at)])) {
            ++at;
        }
        return at;
    };
    const auto first = whole(cut(comm.rank()) - ends.begin());
    const auto last = whole(cut(comm.rank() + 1) - ends.begin());
    return std::span(blocks).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(last - first));
}

Index bytes_of(std::span<const DoneBlock> blocks, const BlockPlaces& places) {
    Bytes bytes = 0;
    for (const DoneBlock& block : blocks) {
        const plan::OutputRange range = places.range(block);
        bytes += range.end - range.begin;
    }
    return static_cast<Index>(bytes);
}

/// What an earlier run saw in a block; nullptr where none has.
const SeenBlock* seen_at(const Resumption& earlier, const BlockPlaces& places,
                         const DoneBlock& block) {
    const auto index_of = [&](const SeenBlock& seen) {
        return places.index({seen.number, seen.tensor, {}});
    };
    const std::size_t index = places.index(block);
    const auto at = std::ranges::lower_bound(earlier.seen, index, {}, index_of);
    return at != earlier.seen.end() && index_of(*at) == index ? &*at : nullptr;
}

/// Blocks that need not be read again, and all others.
std::pair<std::vector<DoneBlock>, std::vector<DoneBlock>> parted(const Resumption& earlier,
                                                                 const BlockPlaces& places) {
    std::vector<DoneBlock> unread = earlier.blocks;
    const auto kept = std::stable_partition(
        unread.begin(), unread.end(),
        [&](const DoneBlock& block) { return seen_at(earlier, places, block) == nullptr; });
    std::vector<DoneBlock> seen(kept, unread.end());
    unread.erase(kept, unread.end());
    return {std::move(seen), std::move(unread)};
}

std::vector<plan::OutputRange> shared(mpi::Comm& comm, const std::vector<plan::OutputRange>& mine) {
    return plan::united(mpi::gather_all(comm, mine));
}

/// Reads a rank's blocks back in output order, one file open at a time; those that are right
/// together only together.
class BlockReadBack {
  public:
    BlockReadBack(const plan::Plan& plan, const BlockPlaces& places, const io::Directory& directory,
                  const RunOptions& options)
        : plan_(plan), places_(places), directory_(directory), options_(options) {}

    /// Gives `on_reused` those that are right and returns them. Counts. Error(io).
    std::vector<DoneBlock> read(mpi::Comm& comm, std::span<const DoneBlock> blocks,
                                const OnReused& on_reused, RankCounts& counts) {
        const Index own = bytes_of(blocks, places_);
        const Index total = comm.all_sum(own);
        Index done = 0;
        std::vector<DoneBlock> good;
        mpi::run_freely(comm, options_.why_stop, [&](const mpi::OnStep& step) {
            const auto before_block = [&] {
                step();
                if (options_.on_read_back) {
                    options_.on_read_back(done, own, total);
                }
            };
            while (!blocks.empty()) {
                const auto together = next_of(blocks);
                bool is_good = together.size() == places_.n_together(together.front());
                for (const std::size_t i : indices(together)) {
                    before_block();
                    read_block(places_.slice(together[i]), bytes_[i]);
                    done += std::ssize(bytes_[i]);
                    const bool is_right = digest_of(bytes_[i]) == together[i].digest;
                    counts.bytes_damaged += is_right ? 0 : bytes_[i].size();
                    is_good = is_good && is_right;
                }
                for (std::size_t i = 0; is_good && i < together.size(); ++i) {
                    good.push_back(together[i]);
                    on_reused(together[i], places_.slice(together[i]), bytes_[i]);
                    ++counts.blocks_reused;
                    counts.bytes_reused += bytes_[i].size();
                }
            }
            finish_file();
        });
        return good;
    }

  private:
    /// Takes the first ones that belong together.
    std::span<const DoneBlock> next_of(std::span<const DoneBlock>& blocks) {
        std::size_t n = 1;
        while (n < blocks.size() && places_.are_together(blocks[n - 1], blocks[n])) {
            ++n;
        }
        const auto together = blocks.first(n);
        blocks = blocks.subspan(n);
        bytes_.resize(std::max(bytes_.size(), n));
        return together;
    }

    void read_block(const plan::Slice& slice, ByteBuffer& bytes) {
        const std::uint32_t at = plan_.placement.slots[slice.tensor].file;
        if (!file_.is_open() || at_ != at) {
            finish_file();
            file_ = io::InputFile::open(directory_, plan_.placement.files[at].name);
            at_ = at;
        }
        bytes.resize(plan_.bytes_of(slice));
        file_.read_at(file_offset_of(plan_, slice), bytes);
    }

    /// Blocks of a run with --no_fsync may be in a cache only, of this host or, until they were
    /// read, of another one.
    void finish_file() {
        if (options_.sync && file_.is_open()) {
            io::OutputFile::open_existing(directory_, plan_.placement.files[at_].name).sync();
        }
    }

    const plan::Plan& plan_;
    const BlockPlaces& places_;
    const io::Directory& directory_;
    const RunOptions& options_;
    io::InputFile file_;
    std::uint32_t at_ = 0;           ///< the placement's file that is open
    std::vector<ByteBuffer> bytes_;  ///< of blocks that belong together
};

}  // namespace

OutputTask::OutputTask(const OutputWork& output, const SourceFiles& source, int rank,
                       const plan::Plan* primary)
    : plan_(output.plan),
      directory_(output.directory),
      options_(output.options),
      primary_(primary),
      writer_(output.plan, source, output.directory, output.options, rank) {
    if (primary != nullptr) {
        derived_.emplace(*primary, output.plan);
    }
}

/// Blocks are read back each by one rank, not necessarily their owner.
void OutputTask::take_over(mpi::Comm& comm, const SourceFiles& source) {
    const Resumption& earlier = options_.resumption;
    if (earlier.blocks.empty()) {
        return;
    }
    const BlockPlaces places(plan_);
    const auto [kept, unread] = parted(earlier, places);
    std::vector<DoneBlock> good;
    for (const DoneBlock& block : share_of(kept, places, comm)) {
        const plan::Slice slice = places.slice(block);
        const Bytes bytes = plan_.bytes_of(slice);
        good.push_back(block);
        writer_.put_kept(block, slice, seen_at(earlier, places, block)->census);
        ++counts_.blocks_reused;
        counts_.bytes_reused += bytes;
        counts_.bytes_seen += bytes;
    }
    const OnReused on_reused = [&](const DoneBlock& block, const plan::Slice& slice,
                                   ByteView bytes) {
        if (source.throttle) {
            source.throttle->wait_for(bytes.size());
        }
        writer_.put_done(block, slice, bytes);
    };
    BlockReadBack back(plan_, places, directory_, options_);
    const auto read = back.read(comm, share_of(unread, places, comm), on_reused, counts_);
    append_all(good, read);
    done_ = shared(comm, places.ranges(good));
}

std::vector<plan::OutputRange> OutputTask::done_of_primary() const {
    return derived_ ? derived_->done_of_primary(done_) : done_;
}

void OutputTask::write_round(const Round& round, plan::OutputRange range) {
    if (!writer_.is_wanted()) {
        return;
    }
    if (!derived_) {
        writer_.write_round(round, range);
        return;
    }
    for (const StoredSlice& from : round.slices) {
        for (const plan::OutputMapping& relation : derived_->of(from.slice.tensor)) {
            const plan::OutputRange made = derived_->range_of(relation, from.slice);
            for (const plan::OutputRange& part : plan::without(made, done_)) {
                put_part(round, from, relation, part);
            }
        }
    }
}

/// Strips that have to be arranged share a buffer.
void OutputTask::put_part(const Round& round, const StoredSlice& from,
                          const plan::OutputMapping& relation, plan::OutputRange part) {
    std::vector<StoredSlice> slices;
    for (const plan::Slice& slice : plan::work_of(plan_, part)) {
        if (!relation.is_straight() && !slices.empty()) {
            put_slices(round.term, std::exchange(slices, {}));
        }
        slices.push_back(assembled(round, from, relation, slice));
    }
    put_slices(round.term, std::move(slices));
}

void OutputTask::put_slices(std::uint32_t term, std::vector<StoredSlice> slices) {
    if (slices.empty()) {
        return;
    }
    const plan::OutputRange range{slices.front().slice.output_begin,
                                  plan::range_of(plan_, slices.back().slice).end};
    Round own;
    own.term = term;
    own.slices = std::move(slices);
    writer_.write_round(own, range);
}

/// The stored elements of an own slice: where they lie in what the primary output has assembled, or
/// copied from there where their order is another one.
StoredSlice OutputTask::assembled(const Round& round, const StoredSlice& from,
                                  const plan::OutputMapping& relation, const plan::Slice& slice) {
    const plan::Target& primary_target = primary_->target_of(from.slice.tensor);
    const layout::Range wanted = plan_.sources(slice);
    const layout::Range there = primary_->sources(from.slice);
    const Bytes size = size_of(primary_target.mix ? primary_target.mix->terms[round.term].stored
                                                  : primary_target.stored);
    if (wanted.extent == 0 || from.stored.empty()) {
        return {slice, {}};
    }
    const Bytes bytes = static_cast<Bytes>(wanted.extent) * size;
    if (relation.is_straight()) {
        const auto begin = static_cast<Bytes>(wanted.lo - relation.first - there.lo);
        return {slice, from.stored.subspan(begin * size, bytes)};
    }
    const ByteSpan place = arranged_.get(bytes);
    for (const layout::Copy& copy : relation.copies) {
        for (layout::Copy& part : layout::part_in(copy, wanted)) {
            part.src_offset -= there.lo;
            layout::run(part, size, from.stored, place);
        }
    }
    return {slice, place};
}

void OutputTask::put_constants(const mpi::Comm& comm) {
    if (!derived_ || !writer_.is_wanted()) {
        return;
    }
    const auto n_ranks = static_cast<std::size_t>(comm.size());
    const auto& alone = derived_->constants();
    for (auto at = static_cast<std::size_t>(comm.rank()); at < alone.size(); at += n_ranks) {
        for (const plan::OutputRange& part : plan::without(alone[at], done_)) {
            std::vector<StoredSlice> constants;
            for (const plan::Slice& slice : plan::work_of(plan_, part)) {
                constants.push_back({slice, {}});
            }
            put_slices(plan_.n_terms - 1, std::move(constants));
        }
    }
}

void OutputTask::require_whole(mpi::Comm& comm) const {
    if (options_.write) {
        require_each_byte_once(plan_, gathered(comm, writer_.tally(counts_.bytes_reused)), done_);
    }
}

RankCounts OutputTask::counts() const {
    RankCounts counts = counts_;
    counts.bytes_written = writer_.bytes_written();
    return counts;
}

}  // namespace shardweld::execute

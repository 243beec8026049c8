#include "product.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/codec.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

#include "digests.hpp"
#include "round.hpp"
#include "run_options.hpp"
#include "tally.hpp"

namespace shardweld::execute {

namespace {

/// Gets a block that is as the journal says, and its bytes.
using OnReused = std::function<void(const DoneBlock& block, const plan::Slice& slice,
                                    std::span<const std::byte> bytes)>;

/// Gets one that is not read again.
using OnKept = std::function<void(const DoneBlock& block, const plan::Slice& slice,
                                  const numeric::Census& census)>;

/// Reads blocks in the order of the line: one file is open at a time.
class BlockReader {
  public:
    /// With `sync` the files that are read are brought to the disk, at the latest by `finish`.
    BlockReader(const plan::Plan& plan, io::Directory directory, bool sync)
        : plan_(plan), directory_(std::move(directory)), sync_(sync) {}

    std::span<const std::byte> read(const plan::Slice& slice) {
        const std::uint32_t at = plan_.placement.slots[slice.target].file;
        if (!file_.is_open() || at_ != at) {
            finish();
            file_ = io::InputFile::open(directory_, plan_.placement.files[at].name);
            at_ = at;
        }
        bytes_.resize(static_cast<Bytes>(slice.end - slice.begin) *
                      size_of(plan_.targets[slice.target].dtype));
        file_.read_at(file_offset_of(plan_, slice), bytes_);
        return bytes_;
    }

    /// Blocks of a run with --no_fsync may be in a cache only, of this host or, until they were
    /// read, of another one.
    void finish() {
        if (sync_ && file_.is_open()) {
            io::OutputFile::open_existing(directory_, plan_.placement.files[at_].name).sync();
        }
    }

  private:
    const plan::Plan& plan_;
    io::Directory directory_;
    bool sync_;
    io::InputFile file_;
    std::uint32_t at_ = 0;
    std::vector<std::byte> bytes_;  ///< less than two blocks, given back before rounds begin
};

/// A rank's part of the blocks: runs of the list with about as many bytes each.
std::span<const DoneBlock> share_of(const std::vector<DoneBlock>& blocks, const plan::Plan& plan,
                                    const BlockPlaces& places, const mpi::Comm& comm) {
    std::vector<Bytes> ends;
    Bytes total = 0;
    for (const DoneBlock& block : blocks) {
        const plan::LineRange line = places.line(block);
        ends.push_back(total += line.end - line.begin);
    }
    const auto cut = [&](int rank) {
        const Bytes at = total / static_cast<Bytes>(comm.size()) * static_cast<Bytes>(rank);
        return rank == comm.size() ? ends.end() : std::upper_bound(ends.begin(), ends.end(), at);
    };
    // Codes and their scales stay together.
    const auto whole = [&](std::ptrdiff_t at) {
        const bool divides = at > 0 && at < std::ssize(blocks) &&
                             plan.targets[blocks[static_cast<std::size_t>(at)].target].is_scales();
        return divides ? at + 1 : at;
    };
    const auto first = whole(cut(comm.rank()) - ends.begin());
    const auto last = whole(cut(comm.rank() + 1) - ends.begin());
    return std::span(blocks).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(last - first));
}

Index bytes_of(std::span<const DoneBlock> blocks, const BlockPlaces& places) {
    Bytes bytes = 0;
    for (const DoneBlock& block : blocks) {
        const plan::LineRange line = places.line(block);
        bytes += line.end - line.begin;
    }
    return static_cast<Index>(bytes);
}

/// What an earlier run saw in a block; nullptr where none has.
const SeenBlock* seen_at(const Resumption& earlier, const BlockPlaces& places,
                         const DoneBlock& block) {
    const auto index_of = [&](const SeenBlock& seen) {
        return places.index({seen.number, seen.target, {}});
    };
    const std::size_t index = places.index(block);
    const auto at = std::lower_bound(
        earlier.seen.begin(), earlier.seen.end(), index,
        [&](const SeenBlock& seen, std::size_t wanted) { return index_of(seen) < wanted; });
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

std::vector<plan::LineRange> shared(mpi::Comm& comm, const std::vector<plan::LineRange>& mine) {
    return plan::united(mpi::gather_all(comm, mine));
}

/// Collective. Reads the blocks of `options.resumption` back, each by one rank, not necessarily its
/// owner, and calls `on_reused` there; `on_kept` for those that need not be read. Returns the lines
/// of those that are right, the same on all ranks, and counts this rank's. Error(io),
/// Error(stopped).
std::vector<plan::LineRange> reuse(mpi::Comm& comm, const plan::Plan& plan,
                                   const io::Directory& directory, const RunOptions& options,
                                   const OnReused& on_reused, const OnKept& on_kept,
                                   RankCounts& counts) {
    if (options.resumption.blocks.empty()) {
        return {};
    }
    const BlockPlaces places(plan);
    const Resumption& earlier = options.resumption;
    const auto [kept, unread] = parted(earlier, places);
    std::vector<DoneBlock> good;
    for (const DoneBlock& block : share_of(kept, plan, places, comm)) {
        const plan::Slice slice = places.slice(block);
        const Bytes bytes =
            static_cast<Bytes>(slice.end - slice.begin) * size_of(plan.targets[block.target].dtype);
        good.push_back(block);
        on_kept(block, slice, seen_at(earlier, places, block)->census);
        ++counts.blocks_reused;
        counts.bytes_reused += bytes;
        counts.bytes_seen += bytes;
    }
    const auto mine = share_of(unread, plan, places, comm);
    BlockReader reader(plan, directory, options.sync);
    const Index own = bytes_of(mine, places);
    const Index total = comm.all_sum(own);
    Index done = 0;
    mpi::run_freely(comm, options.why_stop, [&](const mpi::OnStep& step) {
        const auto accept = [&](const DoneBlock& block, std::span<const std::byte> bytes) {
            good.push_back(block);
            on_reused(block, places.slice(block), bytes);
            ++counts.blocks_reused;
            counts.bytes_reused += bytes.size();
        };
        std::optional<DoneBlock> codes;  // without their scales they have to be made again
        std::vector<std::byte> held;
        for (const DoneBlock& block : mine) {
            step();
            if (options.on_read_back) {
                options.on_read_back(done, own, total);
            }
            const auto bytes = reader.read(places.slice(block));
            done += static_cast<Index>(bytes.size());
            const bool is_good = digest_of(bytes) == block.digest;
            counts.bytes_damaged += is_good ? 0 : bytes.size();
            const auto last = std::exchange(codes, std::nullopt);
            const plan::Target& target = plan.targets[block.target];
            if (is_good && target.has_scales()) {
                codes = block;
                held.assign(bytes.begin(), bytes.end());
            } else if (is_good && !target.is_scales()) {
                accept(block, bytes);
            } else if (is_good && last && last->target + 1 == block.target &&
                       last->number == block.number) {
                accept(*last, held);
                accept(block, bytes);
            }
        }
        reader.finish();
    });
    return shared(comm, places.lines(good));
}

}  // namespace

Product::Product(const Output& output, const SourceFiles& source, int rank,
                 const plan::Plan* leader)
    : plan_(output.plan),
      directory_(output.directory),
      options_(output.options),
      leader_(leader),
      writer_(output.plan, source, output.directory, output.options, rank) {
    if (leader != nullptr) {
        followed_.emplace(*leader, output.plan);
    }
}

void Product::take_over(mpi::Comm& comm, const SourceFiles& source) {
    done_ = reuse(
        comm, plan_, directory_, options_,
        [&](const DoneBlock& block, const plan::Slice& slice, std::span<const std::byte> bytes) {
            if (source.throttle) {
                source.throttle->take(bytes.size());
            }
            writer_.put_done(block, slice, bytes);
        },
        [&](const DoneBlock& block, const plan::Slice& slice, const numeric::Census& census) {
            writer_.put_kept(block, slice, census);
        },
        counts_);
}

std::vector<plan::LineRange> Product::done_of_leader() const {
    return followed_ ? followed_->done_of_leader(done_) : done_;
}

void Product::put(const Round& round, plan::LineRange range) {
    if (!writer_.is_wanted()) {
        return;
    }
    if (!followed_) {
        writer_.put(round, range);
        return;
    }
    for (const Assembled& from : round.slices) {
        for (const plan::Relation& relation : followed_->of(from.slice.target)) {
            const plan::LineRange line = followed_->line_of(relation, from.slice);
            for (const plan::LineRange& part : plan::without(line, done_)) {
                put_part(round, from, relation, part);
            }
        }
    }
}

/// Strips that have to be arranged share a buffer.
void Product::put_part(const Round& round, const Assembled& from, const plan::Relation& relation,
                       plan::LineRange part) {
    std::vector<Assembled> slices;
    for (const plan::Slice& slice : plan::slices_of(plan_, part)) {
        const bool is_next = !relation.is_straight() && !plan_.targets[slice.target].is_scales();
        if (is_next && !slices.empty()) {
            put_slices(round.term, std::exchange(slices, {}));
        }
        slices.push_back(assembled(round, from, relation, slice));
    }
    put_slices(round.term, std::move(slices));
}

void Product::put_slices(std::uint32_t term, std::vector<Assembled> slices) {
    if (slices.empty()) {
        return;
    }
    const plan::Slice& last = slices.back().slice;
    const Bytes size =
        static_cast<Bytes>(last.end - last.begin) * size_of(plan_.targets[last.target].dtype);
    const plan::LineRange range{slices.front().slice.line_begin, last.line_begin + size};
    Round own;
    own.term = term;
    own.slices = std::move(slices);
    writer_.put(own, range);
}

/// The stored elements of an own slice: where they lie in what the leader has assembled, or copied
/// from there where their order is another one.
Assembled Product::assembled(const Round& round, const Assembled& from,
                             const plan::Relation& relation, const plan::Slice& slice) {
    const plan::Target& leading = leader_->targets[from.slice.target];
    const layout::Range wanted = plan_.targets[slice.target].sources(slice.begin, slice.end);
    const layout::Range there = leading.sources(from.slice.begin, from.slice.end);
    const Bytes size =
        size_of(leading.mix ? leading.mix->terms[round.term].stored : leading.stored);
    if (wanted.extent == 0 || from.stored.empty()) {
        return {slice, {}};
    }
    const Bytes bytes = static_cast<Bytes>(wanted.extent) * size;
    if (relation.is_straight()) {
        const auto begin = static_cast<Bytes>(wanted.lo - relation.first - there.lo);
        return {slice, from.stored.subspan(begin * size, bytes)};
    }
    const std::span<std::byte> place = arranged_.get(bytes);
    for (const layout::Copy& copy : relation.copies) {
        for (layout::Copy part : layout::restrict_dst(copy, wanted.lo, wanted.lo + wanted.extent)) {
            part.src_offset -= there.lo;
            part.dst_offset -= wanted.lo;
            layout::run(part, size, from.stored, place);
        }
    }
    return {slice, place};
}

void Product::put_constants(const mpi::Comm& comm) {
    if (!followed_ || !writer_.is_wanted()) {
        return;
    }
    const auto n_ranks = static_cast<std::size_t>(comm.size());
    const auto& alone = followed_->alone();
    for (auto at = static_cast<std::size_t>(comm.rank()); at < alone.size(); at += n_ranks) {
        for (const plan::LineRange& part : plan::without(alone[at], done_)) {
            std::vector<Assembled> constants;
            for (const plan::Slice& slice : plan::slices_of(plan_, part)) {
                constants.push_back({slice, {}});
            }
            put_slices(plan_.n_terms - 1, std::move(constants));
        }
    }
}

void Product::require_whole(mpi::Comm& comm) const {
    if (options_.write) {
        require_each_byte_once(plan_, gathered(comm, writer_.tally(counts_.bytes_reused)), done_);
    }
}

RankCounts Product::counts() const {
    RankCounts counts = counts_;
    counts.bytes_written = writer_.bytes_written();
    return counts;
}

}  // namespace shardweld::execute

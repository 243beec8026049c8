#include "reuse.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/codec.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

#include "digests.hpp"
#include "round.hpp"

namespace shardweld::execute {

namespace {

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

}  // namespace

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

}  // namespace shardweld::execute

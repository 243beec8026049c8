#include "product.hpp"

#include <utility>

#include "plan/plan.hpp"

#include "reuse.hpp"
#include "tally.hpp"

namespace shardweld::execute {

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

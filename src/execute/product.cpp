#include "product.hpp"

#include <utility>

#include "shardweld/plan/plan.hpp"

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
        for (const plan::LineRange& part : plan::without(followed_->line_of(from.slice), done_)) {
            put_part(round, from, part);
        }
    }
}

void Product::put_part(const Round& round, const Assembled& from, plan::LineRange part) {
    Round own;
    own.term = round.term;
    for (const plan::Slice& slice : plan::slices_of(plan_, part)) {
        own.slices.push_back(assembled(round, from, slice));
    }
    writer_.put(own, part);
}

/// Where the stored elements of an own slice lie in what the leader has assembled.
Assembled Product::assembled(const Round& round, const Assembled& from,
                             const plan::Slice& slice) const {
    const plan::Target& target = plan_.targets[slice.target];
    const plan::Target& leading = leader_->targets[from.slice.target];
    const layout::Range wanted = target.sources(slice.begin, slice.end);
    const layout::Range there = leading.sources(from.slice.begin, from.slice.end);
    const Bytes size =
        size_of(leading.mix ? leading.mix->terms[round.term].stored : leading.stored);
    if (wanted.extent == 0 || from.stored.empty()) {
        return {slice, {}};
    }
    return {slice, from.stored.subspan(static_cast<Bytes>(wanted.lo - there.lo) * size,
                                       static_cast<Bytes>(wanted.extent) * size)};
}

void Product::put_constants(const mpi::Comm& comm) {
    if (!followed_ || !writer_.is_wanted()) {
        return;
    }
    const auto n_ranks = static_cast<std::size_t>(comm.size());
    const auto& alone = followed_->alone();
    Round constants;
    constants.term = plan_.n_terms - 1;
    for (auto at = static_cast<std::size_t>(comm.rank()); at < alone.size(); at += n_ranks) {
        for (const plan::LineRange& part : plan::without(alone[at], done_)) {
            put_part(constants, {}, part);
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

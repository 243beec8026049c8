#include "prefetch.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "layout/copy.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/rounds.hpp"

namespace shardweld::execute {

namespace {

// What a rank has the kernel fetch ahead: enough that a disk always has something to do. The
// kernel's own guess, the bytes behind those just read, is wrong wherever a tensor's piece ends.
constexpr Bytes kAheadBytes = Bytes{16} << 20U;
constexpr Bytes kMostRounds = 64;
// In common rounds each rank goes through all ranks' shares: with more ranks that takes too long to
// be done twice.
constexpr int kMostInLockstep = 64;

// Ranks that fill the cores keep the disk busy by themselves, and pages that are asked for are
// small ones: two ranks on two cores were 4 to 20 % slower with it, one rank 8 to 20 % quicker.
std::size_t rounds_ahead(const plan::Plan& plan) {
    if (plan.limits.ahead == 0 || (plan.is_lockstep && plan.n_ranks() > kMostInLockstep)) {
        return 0;
    }
    return std::min(kAheadBytes / std::max<Bytes>(plan.limits.round, 1), kMostRounds);
}

void announce_part(Reader& reader, const plan::Operand& operand, const layout::Copy& part,
                   Bytes element_bytes) {
    const layout::Range span = layout::src_span(part);
    // Most of what lies far apart would be fetched for nothing.
    if (span.extent / 2 <= part.volume()) {
        reader.announce(operand.file, operand.base + static_cast<Bytes>(span.lo) * element_bytes,
                        static_cast<Bytes>(span.extent) * element_bytes);
    }
}

}  // namespace

Prefetch::Prefetch(const plan::Plan& plan, plan::Rounds rounds, int rank, Reader& reader)
    : plan_(plan),
      rounds_(std::move(rounds)),
      rank_(rank),
      reader_(reader),
      n_ahead_(reader.may_announce() ? rounds_ahead(plan) : 0) {}

bool Prefetch::next(std::vector<plan::OutputRange>& ranges) {
    Ranges made;
    while (coming_.size() <= n_ahead_ && rounds_.next(made)) {
        // What is read at once needs no announcement.
        for (std::size_t owner = 0; !coming_.empty() && owner < made.size(); ++owner) {
            if (made[owner].begin < made[owner].end) {
                announce(static_cast<int>(owner), made[owner], rounds_.term());
            }
        }
        coming_.emplace_back(std::move(made), rounds_.term());
    }
    if (coming_.empty()) {
        return false;
    }
    std::tie(ranges, term_) = std::move(coming_.front());
    coming_.pop_front();
    return true;
}

void Prefetch::announce(int owner, plan::OutputRange range, std::uint32_t term) {
    for (const plan::Slice& slice : plan::work_of(plan_, range)) {
        const plan::Target& target = plan_.target_of(slice.tensor);
        for (const plan::Operand& operand : plan_.operands_of(slice.tensor)) {
            if (operand.term != term || plan_.reader_of(operand, target, owner) != rank_) {
                continue;
            }
            const Bytes element_bytes = size_of(target.stored_as(operand));
            for (const layout::Copy& part : layout::part_in(operand.copy, plan_.sources(slice))) {
                announce_part(reader_, operand, part, element_bytes);
            }
        }
    }
}

}  // namespace shardweld::execute

// Several outputs made from one read: which part of one is made of what a part of another, the
// leader, is made of. Pure; knows targets and lines, nothing of who reads and writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardweld/plan/line_range.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::plan {

/// Gives targets of the leader the strips of the targets in `own` that are made of the same stored
/// elements. Error(unsupported) naming a target of `own` that is made of others than each of the
/// leader's, or of the same in another order.
void lead(std::vector<Target>& leader, const std::vector<Target>& own);

/// An output beside its leader, which may be the same. Both plans must outlive it.
class Followed {
  public:
    /// Error(unsupported) as by lead().
    Followed(const Plan& leader, const Plan& own);

    /// The part of the own line that is made of a slice of the leader: whole strips of both. Empty
    /// for slices that nothing is made of, and for scales, which belong to their codes.
    [[nodiscard]] LineRange line_of(const Slice& slice) const;

    /// The parts of the leader's line for which nothing is left to do where the united list `done`
    /// of the own line is there.
    [[nodiscard]] std::vector<LineRange> done_of_leader(std::span<const LineRange> done) const;

    /// Parts of the own line that are made of nothing stored: constants.
    [[nodiscard]] const std::vector<LineRange>& alone() const { return alone_; }

  private:
    [[nodiscard]] LineRange done_of(std::size_t at, LineRange done) const;

    const Plan& leader_;
    const Plan& own_;
    std::vector<std::uint32_t> own_of_;  ///< by the leader's target; kNone: nothing is made of it
    std::vector<LineRange> items_;       ///< by own target that is on the line by itself
    std::vector<LineRange> alone_;
};

}  // namespace shardweld::plan

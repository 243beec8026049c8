// Several outputs made from one read: which part of one is made of what a part of another, the
// leader, is made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/line_range.hpp"
#include "plan/plan.hpp"

#include "relation.hpp"

namespace shardweld::plan {

/// An output beside its leader, which may be the same. Both plans must outlive it; their strips are
/// those of share_strips.
class Followed {
  public:
    /// Error(unsupported) as by relations_of.
    Followed(const Plan& leader, const Plan& own);

    /// What is made of what a tensor of the leader is made of.
    [[nodiscard]] std::span<const Relation> of(std::uint32_t tensor) const;

    /// The part of the own line that is made, by one of the relations, of a slice of the leader's
    /// work:
    /// whole strips of both.
    [[nodiscard]] LineRange line_of(const Relation& relation, const Slice& slice) const;

    /// The parts of the leader's line for which nothing is left to do where the united list `done`
    /// of the own line is there.
    [[nodiscard]] std::vector<LineRange> done_of_leader(std::span<const LineRange> done) const;

    /// Parts of the own line that are made of nothing stored: constants.
    [[nodiscard]] const std::vector<LineRange>& alone() const { return alone_; }

  private:
    [[nodiscard]] LineRange done_of(std::size_t at, const Relation& relation, LineRange done) const;
    [[nodiscard]] std::vector<LineRange> done_for(std::size_t at, const Relation& relation,
                                                  std::span<const LineRange> done) const;

    const Plan& leader_;
    const Plan& own_;
    std::vector<Relation> relations_;  ///< in the order of the leader's targets
    std::vector<LineRange> items_;     ///< on the own line, by own target
    std::vector<LineRange> alone_;
};

}  // namespace shardweld::plan

// Several outputs made from one read: which part of one is made of what a part of another, the
// primary output, is made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/output_range.hpp"
#include "plan/plan.hpp"

#include "relation.hpp"

namespace shardweld::plan {

/// An output that is made in the rounds of another one, the primary output; it may be that one
/// itself. Both plans must outlive this; their strips are those of share_strips.
class DerivedOutput {
  public:
    /// Error(unsupported) as by relations_of.
    DerivedOutput(const Plan& primary, const Plan& own);

    /// What this output makes of the elements that a tensor of the primary output is made of.
    [[nodiscard]] std::span<const OutputMapping> of(std::uint32_t tensor) const;

    /// The part of the own output space that is made, by one of the relations, of a slice of the
    /// primary output: whole strips of both.
    [[nodiscard]] OutputRange range_of(const OutputMapping& relation, const Slice& slice) const;

    /// The parts of the primary output's space for which nothing is left to do where the united
    /// list `done` of the own output space is there.
    [[nodiscard]] std::vector<OutputRange> done_of_primary(std::span<const OutputRange> done) const;

    /// Parts of the own output space that are made of nothing stored: constants.
    [[nodiscard]] const std::vector<OutputRange>& constants() const { return constants_; }

  private:
    [[nodiscard]] OutputRange done_of(std::size_t at, const OutputMapping& relation,
                                      OutputRange done) const;
    [[nodiscard]] std::vector<OutputRange> done_for(std::size_t at, const OutputMapping& relation,
                                                    std::span<const OutputRange> done) const;

    const Plan& primary_;
    const Plan& own_;
    std::vector<OutputMapping> relations_;  ///< in the order of the primary output's targets
    std::vector<OutputRange> items_;        ///< in the own output space, by own target
    std::vector<OutputRange> constants_;
};

}  // namespace shardweld::plan

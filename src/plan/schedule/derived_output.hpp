// Several outputs made from one read: which part of one is made of what a part of another, the
// primary output, is made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/line_range.hpp"
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
    [[nodiscard]] std::span<const Relation> of(std::uint32_t tensor) const;

    /// The part of the own line that is made, by one of the relations, of a slice of the primary
    /// output: whole strips of both.
    [[nodiscard]] LineRange line_of(const Relation& relation, const Slice& slice) const;

    /// The parts of the primary output's line for which nothing is left to do where the united list
    /// `done` of the own line is there.
    [[nodiscard]] std::vector<LineRange> done_of_primary(std::span<const LineRange> done) const;

    /// Parts of the own line that are made of nothing stored: constants.
    [[nodiscard]] const std::vector<LineRange>& constants() const { return constants_; }

  private:
    [[nodiscard]] LineRange done_of(std::size_t at, const Relation& relation, LineRange done) const;
    [[nodiscard]] std::vector<LineRange> done_for(std::size_t at, const Relation& relation,
                                                  std::span<const LineRange> done) const;

    const Plan& primary_;
    const Plan& own_;
    std::vector<Relation> relations_;  ///< in the order of the primary output's targets
    std::vector<LineRange> items_;     ///< on the own line, by own target
    std::vector<LineRange> constants_;
};

}  // namespace shardweld::plan

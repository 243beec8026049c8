// The rounds that a plan is executed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/index.hpp"
#include "plan/output_range.hpp"

namespace shardweld::plan {

struct Plan;

/// Makes the rounds one after the other, the same on all ranks; each part of the output space comes
/// once for every term of the plan. In a lockstep plan a round has one range per rank (possibly
/// empty); no owner assembles more than Limits::round bytes and no reader sends more than
/// Limits::send. Otherwise rounds are those of one rank. What the united list `done` holds is left
/// out.
class Rounds {
  public:
    /// All ranks' rounds.
    explicit Rounds(const Plan& plan, std::span<const OutputRange> done = {});
    /// One rank's rounds in a plan that is not lockstep: ranges of other ranks stay empty.
    Rounds(const Plan& plan, int rank, std::span<const OutputRange> done = {});

    /// False when nothing is left. `ranges` gets one range per rank.
    bool next(std::vector<OutputRange>& ranges);
    /// The term that the last of them is for.
    [[nodiscard]] std::uint32_t term() const { return term_; }

    /// The most that one rank had in one round so far.
    struct Most {
        Bytes output = 0;
        Bytes sent = 0;
        Bytes received = 0;
    };
    [[nodiscard]] const Most& most() const { return most_; }

  private:
    bool next_part(std::vector<OutputRange>& ranges);
    [[nodiscard]] Bytes step_end(Bytes begin, Bytes run_end, Bytes most) const;
    void fill(int owner, OutputRange& range, std::vector<Bytes>& sent);
    [[nodiscard]] bool has_more(std::size_t owner);

    /// What an owner has to do, and how far it is.
    struct OwnerWork {
        std::vector<OutputRange> parts;
        std::size_t part = 0;
        Bytes at = 0;
    };

    const Plan& plan_;
    std::vector<OwnerWork> runs_;
    std::vector<OutputRange> ranges_;  ///< the last, while terms are left
    std::uint32_t term_ = 0;
    Most most_;
};

}  // namespace shardweld::plan

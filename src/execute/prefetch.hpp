// Rounds, made a little ahead of those that are read: the kernel fetches what they will read while
// this rank converts, exchanges and writes, where the plan reads ahead.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "plan/output_range.hpp"
#include "plan/schedule/rounds.hpp"

#include "reader.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::execute {

class Prefetch {
  public:
    Prefetch(const plan::Plan& plan, plan::Rounds rounds, int rank, Reader& reader);

    /// The next round of this rank (Rounds::next); asks for what the rounds behind it read.
    /// Error(io) when a file of theirs cannot be opened.
    bool next(std::vector<plan::OutputRange>& ranges);
    /// The term that the round is of (Rounds::term).
    [[nodiscard]] std::uint32_t term() const { return term_; }

  private:
    using Ranges = std::vector<plan::OutputRange>;

    void announce(int owner, plan::OutputRange range, std::uint32_t term);

    const plan::Plan& plan_;
    plan::Rounds rounds_;
    int rank_;
    Reader& reader_;
    std::size_t n_ahead_;                                  ///< rounds
    std::deque<std::pair<Ranges, std::uint32_t>> coming_;  ///< with their terms
    std::uint32_t term_ = 0;
};

}  // namespace shardweld::execute

// Rounds, made a little ahead of those that are read: the kernel fetches what they will read while
// this rank converts, exchanges and writes, where the plan reads ahead. Knows which bytes a round
// reads; reads none.
#pragma once

#include <deque>
#include <vector>

#include "shardweld/plan/line_range.hpp"
#include "shardweld/plan/rounds.hpp"

#include "reader.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::execute {

class Prefetch {
  public:
    Prefetch(const plan::Plan& plan, plan::Rounds rounds, int rank, Reader& reader);

    /// As Rounds::next; asks for what the rounds behind it read. Error(io) when a file of theirs
    /// cannot be opened.
    bool next(std::vector<plan::LineRange>& ranges);

  private:
    using Ranges = std::vector<plan::LineRange>;

    void announce(int owner, plan::LineRange range);

    const plan::Plan& plan_;
    plan::Rounds rounds_;
    int rank_;
    Reader& reader_;
    std::size_t n_ahead_;  ///< rounds
    std::deque<Ranges> coming_;
};

}  // namespace shardweld::execute

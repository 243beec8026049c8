// How near codes are to weights, strip by strip. Knows ranks and the order of sums; nothing of how
// the two are compared.
#pragma once

#include <map>
#include <vector>

#include "mpi/comm.hpp"
#include "numeric/quality.hpp"

namespace shardweld::execute {

/// Those that one rank has found.
class StripQualities {
  public:
    /// `begin`: the strip's first element in the tensor that is number `of`.
    void add(std::uint32_t of, Index begin, const numeric::Quality& found) {
        strips_.push_back({of, begin, found});
    }
    /// Collective: all ranks' sums, by tensor.
    std::map<std::uint32_t, numeric::Quality> gather(mpi::Comm& comm) const;

  private:
    struct Strip {
        std::uint32_t of = 0;
        Index begin = 0;
        numeric::Quality found;
    };
    std::vector<Strip> strips_;
};

}  // namespace shardweld::execute

#include "strip_qualities.hpp"

#include <algorithm>
#include <utility>

#include "core/codec.hpp"
#include "mpi/share.hpp"

namespace shardweld::execute {

std::map<std::uint32_t, numeric::Quality> StripQualities::gather(mpi::Comm& comm) const {
    std::vector<Strip> all = mpi::gather_all(comm, strips_);
    // Sums of fractions depend on their order.
    std::ranges::sort(all, {}, [](const Strip& strip) { return std::pair(strip.of, strip.begin); });
    std::map<std::uint32_t, numeric::Quality> sums;
    for (const Strip& strip : all) {
        sums[strip.of].add(strip.found);
    }
    return sums;
}

}  // namespace shardweld::execute

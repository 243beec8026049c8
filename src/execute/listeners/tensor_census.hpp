// Looks at finished slices of an output as they come: NaNs, infinities, tensors of one value.
#pragma once

#include <map>
#include <vector>

#include "mpi/comm.hpp"
#include "numeric/census.hpp"

namespace shardweld::plan {
struct Plan;
struct Slice;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// A listener that counts odd values by tensor.
class TensorCensus {
  public:
    /// The plan must outlive it.
    explicit TensorCensus(const plan::Plan& plan) : plan_(plan) {}

    /// Takes the slice's elements in: an OnSlice. Local. Slices of one tensor may come in any
    /// order; no element may come twice.
    void add(const plan::Slice& slice, ByteView bytes);
    /// Adds elements that were looked at earlier.
    void add(const plan::Slice& slice, const numeric::Census& census);

    /// Collective. By tensor, on every rank: those that hold a NaN or an infinity, zeros for the
    /// most part or one value only. Independent of ranks and rounds. Types that numeric::is_counted
    /// does not know are left out.
    std::map<std::uint32_t, numeric::Census> gather(mpi::Comm& comm);

  private:
    struct CensusPart {
        std::uint32_t tensor = 0;
        numeric::Census census;
    };

    void keep(const CensusPart& part);

    const plan::Plan& plan_;
    CensusPart current_;             ///< the tensor under way
    std::vector<CensusPart> parts_;  ///< that may be remarkable: few, unless there are many ranks
};

}  // namespace shardweld::execute

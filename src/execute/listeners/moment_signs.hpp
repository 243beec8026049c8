// Looks at the signs of an optimizer's moments as finished slices of them come: a mean of squares
// below zero does not exist.
#pragma once

#include <cstdint>
#include <map>

#include "core/index.hpp"
#include "mpi/comm.hpp"

namespace shardweld::plan {
struct Plan;
struct Slice;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// A listener that counts signs of moments by tensor.
class MomentSigns {
  public:
    /// How many elements are not zero, by sign. NaNs have none.
    struct Count {
        Index negative = 0;
        Index positive = 0;
    };
    struct Found {
        Count moments;                              ///< of all exp_avg
        std::map<std::uint32_t, Index> below_zero;  ///< elements of an exp_avg_sq, by tensor
    };

    /// The plan must outlive it.
    explicit MomentSigns(const plan::Plan& plan) : plan_(plan) {}

    /// Whether there are moments: then every slice has to be looked at.
    [[nodiscard]] bool is_needed() const;
    /// An OnSlice. Local.
    void add(const plan::Slice& slice, ByteView bytes);
    /// Collective. All ranks' counts, alike on every rank.
    [[nodiscard]] Found gather(mpi::Comm& comm) const;

  private:
    const plan::Plan& plan_;
    Found found_;
};

}  // namespace shardweld::execute

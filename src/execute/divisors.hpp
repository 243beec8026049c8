// The largest values of weights, and NVFP4's divisors made of them.
#pragma once

#include <span>
#include <vector>

#include "mpi/comm.hpp"

namespace shardweld::plan {
struct Plan;
struct Slice;
}  // namespace shardweld::plan

namespace shardweld::execute {

class LargestValues {
  public:
    /// Tensors are f32, f16 or bf16. The plan must outlive it.
    explicit LargestValues(const plan::Plan& plan);

    /// An OnSlice. Local.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes);
    /// Collective. By tensor, the same on all ranks, whatever their number. A NaN's is larger than
    /// all others.
    [[nodiscard]] std::vector<float> gather(mpi::Comm& comm) const;

  private:
    const plan::Plan& plan_;
    std::vector<std::uint32_t> largest_;  ///< bits of magnitudes, which are ordered alike
};

/// Gives each weight of `plan` that is NVFP4 its divisor, and its last output, which holds it: that
/// of the largest among the weights of its share. Weights come in the order of the measured
/// ones; `shares` has their shares.
void set_divisors(plan::Plan& plan, const std::vector<float>& largest,
                  const std::vector<std::uint32_t>& shares);

}  // namespace shardweld::execute

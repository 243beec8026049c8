// What is taken of weights before anything is written: the norms that folded ones are divided by
// (DoRA), and the largest values that divisors of scales are made of.
#pragma once

#include <vector>

#include "core/path.hpp"
#include "mpi/free_run.hpp"

#include "run_options.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// Collective. For every target whose fold is normalised: replaces the magnitudes in the file of
/// factors by magnitude / norm, in fp32. The norm of a row (or column) is the root of the sum of
/// its squares in fp64, added in the order of the elements, rounded to fp32. A target is read by
/// one rank, so its norms do not depend on the number of ranks. Error(unsupported) when no rank
/// sees all files of a target, Error(stopped).
void take_norms(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
                const fs::path& factors, const mpi::WhyStop& why_stop);

class LargestValues {
  public:
    /// Tensors are f32, f16 or bf16. The plan must outlive it.
    explicit LargestValues(const plan::Plan& plan);

    /// An OnSlice. Local.
    void add(const plan::Slice& slice, ByteView bytes);
    /// Collective. By tensor, the same on all ranks, whatever their number. A NaN's is larger than
    /// all others.
    [[nodiscard]] std::vector<float> gather(mpi::Comm& comm) const;

  private:
    const plan::Plan& plan_;
    std::vector<std::uint32_t> largest_;  ///< bits of magnitudes, which are ordered alike
};

/// Gives each weight of `plan` whose scales have a divisor that, and its last output, which holds
/// it: that of the largest among the weights of its share. Weights come in the order of the
/// measured ones; `shares` has their shares.
void set_divisors(plan::Plan& plan, const std::vector<float>& largest,
                  const std::vector<std::uint32_t>& shares);

}  // namespace shardweld::execute

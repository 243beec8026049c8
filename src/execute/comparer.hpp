// Compares finished slices of an output with the tensors of a model on disk, as they come.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "catalogue/tensor.hpp"
#include "mpi/comm.hpp"
#include "numeric/compare.hpp"
#include "numeric/quality.hpp"
#include "numeric/quantised_rows.hpp"

#include "run_options.hpp"
#include "source.hpp"

namespace shardweld::plan {
struct Plan;
struct Slice;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// A written tensor and the tensor of the reference that it is compared with, of the same shape.
struct ComparedPair {
    std::uint32_t written = 0;    ///< index into the plan's tensors
    std::uint32_t reference = 0;  ///< index into the reference's tensors
    DType dtype = DType::f32;     ///< in which they are compared: the wider one is rounded to it
};

/// The model that is compared with, as this rank sees it.
struct ComparedModel {
    SourceFiles source;
    const std::vector<catalogue::Tensor>* tensors = nullptr;  ///< all pieces located
};

/// A listener that compares written slices with another model, and gathers the results at the end.
class Comparer {
  public:
    /// Buffers take at most `memory` bytes. `plan` and what `reference` points to must outlive it.
    Comparer(const plan::Plan& plan, ComparedModel reference, std::vector<ComparedPair> pairs,
             numeric::Tolerance tolerance, Bytes memory);
    ~Comparer();
    Comparer(const Comparer&) = delete;
    Comparer& operator=(const Comparer&) = delete;

    /// Compares the slice in all pairs of its tensor, reading the same elements of the reference:
    /// an OnSlice. Local. Error(corrupt) when a file has changed or does not cover a tensor.
    void add(const plan::Slice& slice, ByteView bytes);

    /// An OnCodes: how near the codes are to the reference, which counts as if it had the weight's
    /// type. As add.
    void add_codes(const plan::Slice& slice, const numeric::QuantisedRows& rows, ByteView codes,
                   ByteView scales);

    /// Collective. What all ranks found, by pair, on every rank; independent of their number.
    std::vector<numeric::Comparison> gather(mpi::Comm& comm) const;
    /// How near the codes are, for pairs that have them.
    std::map<std::uint32_t, numeric::Quality> gather_quality(mpi::Comm& comm) const;

  private:
    class State;
    std::unique_ptr<State> state_;
};

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

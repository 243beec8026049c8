// Compares finished slices of an output with the tensors of a model on disk, as they come.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "catalogue/tensor.hpp"
#include "mpi/comm.hpp"
#include "numeric/compare.hpp"
#include "numeric/quality.hpp"
#include "numeric/quantised_rows.hpp"
#include "plan/binding.hpp"
#include "plan/plan.hpp"

#include "reader.hpp"
#include "round.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// A written tensor and the tensor of the reference that it is compared with, of the same shape.
struct ComparedPair {
    std::uint32_t written = 0;    ///< index into the plan's tensors
    std::uint32_t reference = 0;  ///< index into the reference's tensors
    DType dtype = DType::f32;     ///< in which they are compared: the wider one is rounded to it
};

/// How near codes are to weights, strip by strip, as far as one rank has made them.
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

/// A listener that compares written slices with another model, and gathers the results at the end.
class Comparer {
  public:
    /// Buffers take at most `memory` bytes. `source`: the other model as this rank sees it.
    /// `reference`: its tensors, all pieces located. `plan` and `reference` must outlive it.
    Comparer(const plan::Plan& plan, SourceFiles source,
             const std::vector<catalogue::Tensor>& reference, std::vector<ComparedPair> pairs,
             numeric::Tolerance tolerance, Bytes memory);
    Comparer(const Comparer&) = delete;
    Comparer& operator=(const Comparer&) = delete;
    ~Comparer() = default;

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
    std::map<std::uint32_t, numeric::Quality> gather_quality(mpi::Comm& comm) const {
        return qualities_.gather(comm);
    }

  private:
    void for_pairs(const plan::Slice& slice, const std::function<void(std::size_t pair)>& act);
    void add(std::size_t pair, const plan::Slice& slice, ByteView bytes);
    ByteView read(std::size_t pair, Index begin, Index end);
    [[nodiscard]] const catalogue::Tensor& tensor_of(std::size_t pair) const {
        return reference_[pairs_[pair].reference];
    }

    const plan::Plan& plan_;
    SourceFiles source_;
    const std::vector<catalogue::Tensor>& reference_;
    std::vector<ComparedPair> pairs_;
    numeric::Tolerance tolerance_;
    Bytes part_bytes_;
    Reader reader_;
    std::vector<std::vector<std::size_t>> of_tensor_;  ///< pairs by written tensor
    std::vector<numeric::Comparison> found_;           ///< by pair
    StripQualities qualities_;
    std::vector<plan::Operand> operands_;  ///< of the pair that was read last
    std::size_t last_ = ~std::size_t{0};
    Buffer read_, own_rounded_, their_rounded_;
};

}  // namespace shardweld::execute

#include "comparer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "catalogue/tensor.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "numeric/convert.hpp"
#include "numeric/quantise.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

constexpr Bytes kLargestWindow = Bytes{2} << 20U;
constexpr Bytes kLargestPart = Bytes{1} << 20U;

/// Where the elements of a tensor lie, as copies into a dense tensor.
std::vector<plan::Operand> operands_of(const catalogue::Tensor& tensor) {
    const layout::Patch whole = layout::dense_shape(tensor.shape);
    std::vector<plan::Operand> operands;
    for (const catalogue::Piece& piece : tensor.pieces) {
        const auto copy = piece.replica == 0 ? layout::overlap(piece.patch, whole) : std::nullopt;
        if (copy) {
            operands.push_back({piece.file, piece.base, *copy});
        }
    }
    return operands;
}

/// The elements in another type; `buffer` holds them where it is another one.
ByteView rounded(DType from, ByteView bytes, DType to, Buffer& buffer) {
    if (from == to) {
        return bytes;
    }
    const auto out = buffer.get(bytes.size() / size_of(from) * size_of(to));
    numeric::convert(from, bytes, to, out);
    return out;
}

}  // namespace

Comparer::Comparer(const plan::Plan& plan, SourceFiles source,
                   const std::vector<catalogue::Tensor>& reference, std::vector<ComparedPair> pairs,
                   numeric::Tolerance tolerance, Bytes memory)
    : plan_(plan),
      source_(std::move(source)),
      reference_(reference),
      pairs_(std::move(pairs)),
      tolerance_(tolerance),
      // A window, and at most three parts: the reference's elements and both sides rounded.
      part_bytes_(std::min(kLargestPart, memory / 8)),
      reader_(source_, std::min(kLargestWindow, memory / 4)),
      of_tensor_(plan.tensors.size()),
      found_(pairs_.size()) {
    for (const std::size_t i : indices(pairs_)) {
        of_tensor_[pairs_[i].written].push_back(i);
    }
}

void Comparer::add(const plan::Slice& slice, ByteView bytes) {
    for_pairs(slice, [&](std::size_t i) { add(i, slice, bytes); });
}

void Comparer::add_codes(const plan::Slice& slice, const numeric::QuantisedRows& rows,
                         ByteView codes, ByteView scales) {
    for_pairs(slice, [&](std::size_t i) {
        const auto weight = rounded(tensor_of(i).dtype, read(i, slice.begin, slice.end),
                                    rows.weight, their_rounded_);
        qualities_.add(
            static_cast<std::uint32_t>(i), slice.begin,
            numeric::quality_of(rows, slice.begin / rows.n_columns, weight, codes, scales));
    });
}

std::vector<numeric::Comparison> Comparer::gather(mpi::Comm& comm) const {
    std::map<std::size_t, numeric::Comparison> mine;
    for (const std::size_t i : indices(found_)) {
        if (found_[i].n_elements > 0) {
            mine[i] = found_[i];
        }
    }
    std::vector<numeric::Comparison> sums(pairs_.size());
    for (const auto& part : mpi::gather(comm, mine)) {
        for (const auto& [i, found] : part) {
            sums[i].add(found);
        }
    }
    return sums;
}

void Comparer::for_pairs(const plan::Slice& slice, const std::function<void(std::size_t)>& act) {
    for (const std::size_t i : of_tensor_[slice.tensor]) {
        try {
            act(i);
        } catch (Error& error) {
            error.add_context("tensor " + printable(tensor_of(i).name) + " of " +
                              source_.directory.string());
            throw;
        }
    }
}

void Comparer::add(std::size_t i, const plan::Slice& slice, ByteView bytes) {
    const DType own = plan_.tensor(slice.tensor).dtype;
    const DType theirs = tensor_of(i).dtype;
    const Bytes widest = std::max({size_of(own), size_of(theirs), size_of(pairs_[i].dtype)});
    const auto step = static_cast<Index>(std::max<Bytes>(part_bytes_ / widest, 1));
    for (Index begin = slice.begin; begin < slice.end; begin += step) {
        const Index end = std::min(begin + step, slice.end);
        const auto a = bytes.subspan(static_cast<std::size_t>(begin - slice.begin) * size_of(own),
                                     static_cast<std::size_t>(end - begin) * size_of(own));
        const auto b = read(i, begin, end);
        found_[i].add(numeric::compare(
            pairs_[i].dtype, rounded(own, a, pairs_[i].dtype, own_rounded_),
            rounded(theirs, b, pairs_[i].dtype, their_rounded_), tolerance_, begin));
    }
}

/// Elements [begin, end) of a reference's tensor.
ByteView Comparer::read(std::size_t i, Index begin, Index end) {
    const catalogue::Tensor& tensor = tensor_of(i);
    if (last_ != i) {
        operands_ = operands_of(tensor);
        last_ = i;
    }
    const auto size = static_cast<std::uint32_t>(size_of(tensor.dtype));
    const auto out = read_.get(static_cast<Bytes>(end - begin) * size);
    const std::array range{layout::Range{begin, end - begin}};
    const Index n_found = reader_.gather(operands_, range, size, out);
    if (n_found != end - begin) {
        throw Error(ErrorCode::corrupt, "the stored pieces hold " + std::to_string(n_found) +
                                            " of the elements " + std::to_string(begin) + " to " +
                                            std::to_string(end));
    }
    return out;
}

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

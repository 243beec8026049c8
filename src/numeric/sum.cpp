#include "sum.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "shardweld/error.hpp"

#include "convert.hpp"
#include "sum_kernels.hpp"

namespace shardweld::numeric {

namespace {

/// Elements that pass through fp32 at a time: small enough for the innermost cache.
constexpr std::size_t kSummedElements = 1024;

template <typename Number>
using Summed = std::array<Number, kSummedElements>;

/// The constant is added before fp64 is rounded, as a merge to fp32 does.
void load_sum_of_f64(ByteView elements, float add, std::span<float> x) {
    Summed<double> wide{};
    std::memcpy(wide.data(), elements.data(), elements.size());
    std::transform(
        wide.begin(), wide.begin() + static_cast<std::ptrdiff_t>(x.size()), x.begin(),
        [&](double value) { return static_cast<float>(value + static_cast<double>(add)); });
}

void load_addend(const Addend& addend, std::size_t first, std::span<float> x) {
    const std::size_t size = size_of(addend.dtype);
    const auto elements = addend.elements.subspan(first * size, x.size() * size);
    if (addend.dtype == DType::f64 && addend.add != 0) {
        load_sum_of_f64(elements, addend.add, x);
        return;
    }
    convert(addend.dtype, elements, DType::f32, std::as_writable_bytes(x));
    if (addend.add != 0) {
        add_constant(DType::f32, std::as_writable_bytes(x), addend.add);
    }
}

void check_addend(const Addend& addend, std::size_t n) {
    if (!can_add(addend.dtype)) {
        throw Error(ErrorCode::unsupported, "cannot add " + torch_name(addend.dtype) + " elements");
    }
    if (addend.elements.size() != n * size_of(addend.dtype)) {
        throw Error(ErrorCode::internal, "a sum of " + std::to_string(n) + " elements and " +
                                             std::to_string(addend.elements.size()) + " bytes");
    }
}

/// `visit` gets loops and `count` elements for them, of which the first is the `first`-th: all as
/// they are stored, or block by block in fp32.
template <typename Visit>
void for_each_summed(const Addend& addend, std::size_t n, Visit visit) {
    check_addend(addend, n);
    const SumKernels& best = best_sums();
    if (addend.add == 0 && (addend.dtype == DType::f32 || addend.dtype == DType::bf16)) {
        visit(addend.dtype == DType::f32 ? best.f32 : best.bf16, addend.elements.data(), 0, n);
        return;
    }
    alignas(64) Summed<float> block;  // not initialised
    for (std::size_t first = 0; first < n; first += kSummedElements) {
        const std::size_t count = std::min(kSummedElements, n - first);
        load_addend(addend, first, std::span(block).first(count));
        visit(best.f32, std::as_bytes(std::span(block)).data(), first, count);
    }
}

}  // namespace

bool can_add(DType dtype) {
    return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 ||
           dtype == DType::bf16;
}

void begin_sum(const Addend& addend, std::span<float> sum) {
    for_each_summed(
        addend, sum.size(),
        [&](const SumKernels::TypeSums& loops, const std::byte* x, std::size_t first,
            std::size_t count) { loops.begin(x, addend.weight, sum.data() + first, count); });
}

void add_product(const Addend& addend, std::span<float> sum) {
    for_each_summed(
        addend, sum.size(),
        [&](const SumKernels::TypeSums& loops, const std::byte* x, std::size_t first,
            std::size_t count) { loops.add(x, addend.weight, sum.data() + first, count); });
}

void add_difference(const Addend& addend, std::span<const float> base, std::span<float> sum) {
    if (base.size() != sum.size()) {
        throw Error(ErrorCode::internal, "a difference from a base of another size");
    }
    for_each_summed(addend, sum.size(),
                    [&](const SumKernels::TypeSums& loops, const std::byte* x, std::size_t first,
                        std::size_t count) {
                        loops.add_difference(x, base.data() + first, addend.weight,
                                             sum.data() + first, count);
                    });
}

void round_sum(std::span<const float> sum, DType to, ByteSpan out) {
    if (out.size() != sum.size() * size_of(to)) {
        throw Error(ErrorCode::internal, "a sum is rounded into space of another size");
    }
    alignas(64) Summed<float> block;  // not initialised
    for (std::size_t first = 0; first < sum.size(); first += kSummedElements) {
        const std::span<float> settled =
            std::span(block).first(std::min(kSummedElements, sum.size() - first));
        best_sums().settle(sum.data() + first, settled.data(), settled.size());
        convert(DType::f32, std::as_bytes(settled), to,
                out.subspan(first * size_of(to), settled.size() * size_of(to)));
    }
}

}  // namespace shardweld::numeric

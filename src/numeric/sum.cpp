#include "shardweld/numeric/sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "shardweld/core/error.hpp"
#include "shardweld/numeric/convert.hpp"

#include "sum_kernels.hpp"

namespace shardweld::numeric {

namespace {

/// Elements that pass through fp32 at a time: small enough for the innermost cache.
constexpr std::size_t kSummedElements = 1024;

template <typename Number>
using Summed = std::array<Number, kSummedElements>;

void begin_portable(const float* x, float weight, float* sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        sum[i] = weight * x[i];
    }
}

void add_portable(const float* x, float weight, float* sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float product = weight * x[i];
        sum[i] += product;
    }
}

void add_difference_portable(const float* x, const float* base, float weight, float* sum,
                             std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = x[i] - base[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

const SumKernels& best_sums() {
    static const SumKernels* const fast = avx2_sums();
    return fast != nullptr ? *fast : portable_sums();
}

/// The constant is added before fp64 is rounded, as a merge to fp32 does.
void load_sum_of_f64(std::span<const std::byte> elements, float add, std::span<float> x) {
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

/// `visit` gets the values block by block, with the index of the first.
template <typename Visit>
void for_each_summed(const Addend& addend, std::size_t n, Visit visit) {
    if (!can_add(addend.dtype)) {
        throw Error(ErrorCode::unsupported,
                    "cannot add " + std::string(torch_name(addend.dtype)) + " elements");
    }
    if (addend.elements.size() != n * size_of(addend.dtype)) {
        throw Error(ErrorCode::internal, "a sum of " + std::to_string(n) + " elements and " +
                                             std::to_string(addend.elements.size()) + " bytes");
    }
    alignas(64) Summed<float> block;  // not initialised
    for (std::size_t first = 0; first < n; first += kSummedElements) {
        const std::span<float> x = std::span(block).first(std::min(kSummedElements, n - first));
        load_addend(addend, first, x);
        visit(x, first);
    }
}

}  // namespace

const SumKernels& portable_sums() {
    static constexpr SumKernels kPortable{begin_portable, add_portable, add_difference_portable};
    return kPortable;
}

bool can_add(DType dtype) {
    return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 ||
           dtype == DType::bf16;
}

void begin_sum(const Addend& addend, std::span<float> sum) {
    for_each_summed(addend, sum.size(), [&](std::span<const float> x, std::size_t first) {
        best_sums().begin(x.data(), addend.weight, sum.data() + first, x.size());
    });
}

void add_product(const Addend& addend, std::span<float> sum) {
    for_each_summed(addend, sum.size(), [&](std::span<const float> x, std::size_t first) {
        best_sums().add(x.data(), addend.weight, sum.data() + first, x.size());
    });
}

void add_difference(const Addend& addend, std::span<const float> base, std::span<float> sum) {
    if (base.size() != sum.size()) {
        throw Error(ErrorCode::internal, "a difference from a base of another size");
    }
    for_each_summed(addend, sum.size(), [&](std::span<const float> x, std::size_t first) {
        best_sums().add_difference(x.data(), base.data() + first, addend.weight, sum.data() + first,
                                   x.size());
    });
}

void round_sum(std::span<float> sum, DType to, std::span<std::byte> out) {
    for (float& value : sum) {
        value = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
    }
    convert(DType::f32, std::as_bytes(sum), to, out);
}

}  // namespace shardweld::numeric

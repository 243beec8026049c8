#include "compare.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "shardweld/error.hpp"

#include "coder.hpp"
#include "convert.hpp"
#include "instruction_sets.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

using Complex = std::complex<double>;

/// Elements looked at together: equal bytes need no arithmetic, and in most comparisons most are.
constexpr std::size_t kComparedElements = 512;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_nan(double value) {
    return std::isnan(value);
}
bool is_nan(const Complex& value) {
    return std::isnan(value.real()) || std::isnan(value.imag());
}

/// How far two elements are apart.
struct Gap {
    double absolute = 0;
    double magnitude = 0;  ///< of the reference
    bool is_nan = false;   ///< on one side only
};

template <typename T>
Gap gap_of(const T& a, const T& b) {
    if (a == b || (is_nan(a) && is_nan(b))) {
        return {0, std::abs(b), false};
    }
    const double distance = std::abs(a - b);
    const bool one_nan = is_nan(a) != is_nan(b);
    return {std::isnan(distance) ? kInfinity : distance, std::abs(b), one_nan};
}

/// Unsigned arithmetic: the distance of any two integers fits their unsigned type.
template <typename T>
Gap integer_gap(T a, T b) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto above = static_cast<Unsigned>(std::max(a, b));
    const auto distance = static_cast<Unsigned>(above - static_cast<Unsigned>(std::min(a, b)));
    return {static_cast<double>(distance), std::abs(static_cast<double>(b)), false};
}

/// Adds one element's gap to `sum`.
void add_gap(const Gap& gap, Tolerance tolerance, Index at, Comparison& sum) {
    if (gap.absolute == 0) {
        return;
    }
    const double allowed = tolerance.absolute + tolerance.relative * gap.magnitude;
    const bool is_close = std::isfinite(gap.absolute) && gap.absolute <= allowed;
    sum.n_different += is_close ? 0 : 1;
    sum.n_nan += gap.is_nan ? 1 : 0;
    if (gap.absolute > sum.absolute.error) {
        sum.absolute = {gap.absolute, at};
    }
    double relative = gap.absolute / gap.magnitude;
    if (std::isnan(relative)) {
        relative = kInfinity;
    }
    if (relative > sum.relative.error) {
        sum.relative = {relative, at};
    }
}

template <typename T>
SHARDWELD_LOOP T load(const std::byte* elements, std::size_t at) {
    T value{};
    std::memcpy(&value, elements + at * sizeof(T), sizeof(T));
    return value;
}

/// Of f64, f32 or bf16.
template <DType kType>
SHARDWELD_LOOP double value_at(const std::byte* elements, std::size_t i) {
    if constexpr (kType == DType::bf16) {
        return std::bit_cast<float>(f32_from_bf16(load<std::uint16_t>(elements, i)));
    } else {
        return load<std::conditional_t<kType == DType::f64, double, float>>(elements, i);
    }
}

/// How many of the elements are not close; nullopt where one may have a larger error than those in
/// `sum`, or an infinite one. Without a branch, for the vectoriser, and without a division: where a
/// quotient is above a number, the distance is above the product, which is no larger than it when
/// rounded. `kIsFused`: nothing is rounded, so that equal errors, of which there are many where
/// weights differ by their last bit, are not looked at again.
template <DType kType, bool kIsFused>
SHARDWELD_LOOP std::optional<Index> count_different(const std::byte* a, const std::byte* b,
                                                    std::size_t n, const Tolerance& tolerance,
                                                    const Comparison& sum) {
    const double most = std::min(sum.absolute.error, std::numeric_limits<double>::max());
    const double ratio = sum.relative.error;
    const auto [relative, absolute] = tolerance;
    Index n_different = 0;
    Index n_above = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double reference = value_at<kType>(b, i);
        const double magnitude = std::abs(reference);
        const double distance = std::abs(value_at<kType>(a, i) - reference);
        n_different += distance <= absolute + relative * magnitude ? 0 : 1;
        const bool may_raise = kIsFused ? std::fma(-ratio, magnitude, distance) > 0
                                        : (distance >= ratio * magnitude) & (distance > 0);
        n_above += (distance <= most) & !may_raise ? 0 : 1;
    }
    return n_above == 0 ? std::optional(n_different) : std::nullopt;
}

// Of two runs of at most a block's elements each, of which the first has the index `first`.

template <DType kType>
void compare_floats(ByteView a, ByteView b, Tolerance tolerance, Index first, Comparison& sum) {
    // Doubles may differ by less than the smallest one, and portable code has no fused product.
    constexpr bool kMayBeFused = kType != DType::f64;
    const std::size_t n = a.size() / size_of(kType);
    const auto count = instruction_set() == InstructionSet::portable
                           ? loop_of<count_different<kType, false>>()
                           : loop_of<count_different<kType, kMayBeFused>>();
    const auto n_different = count(a.data(), b.data(), n, tolerance, sum);
    if (n_different) {
        sum.n_different += *n_different;
        return;
    }
    for (std::size_t i = 0; i < n; ++i) {
        add_gap(gap_of(value_at<kType>(a.data(), i), value_at<kType>(b.data(), i)), tolerance,
                first + static_cast<Index>(i), sum);
    }
}

using Floats = std::array<float, kComparedElements>;

ByteView load_floats(DType dtype, ByteView bytes, Floats& out) {
    const auto values = std::as_writable_bytes(std::span(out).first(bytes.size() / size_of(dtype)));
    if (dtype == DType::f8_e8m0) {
        std::ranges::transform(bytes, out.begin(), [](std::byte bits) {
            return power_of_two(std::to_integer<std::uint32_t>(bits));
        });
    } else {
        convert(dtype, bytes, DType::f32, values);
    }
    return values;
}

/// Of types whose elements become fp32's first.
void compare_as_f32(DType dtype, ByteView a, ByteView b, Tolerance tolerance, Index first,
                    Comparison& sum) {
    Floats x;  // not initialised
    Floats y;
    compare_floats<DType::f32>(load_floats(dtype, a, x), load_floats(dtype, b, y), tolerance, first,
                               sum);
}

void compare_complex(ByteView a, ByteView b, Tolerance tolerance, Index first, Comparison& sum) {
    for (std::size_t i = 0; i * sizeof(std::complex<float>) < a.size(); ++i) {
        const Complex x = load<std::complex<float>>(a.data(), i);
        const Complex y = load<std::complex<float>>(b.data(), i);
        add_gap(gap_of(x, y), tolerance, first + static_cast<Index>(i), sum);
    }
}

template <typename T>
void compare_integers(ByteView a, ByteView b, Index first, Comparison& sum) {
    for (std::size_t i = 0; i * sizeof(T) < a.size(); ++i) {
        const Gap gap = integer_gap(load<T>(a.data(), i), load<T>(b.data(), i));
        add_gap(gap, {0, 0}, first + static_cast<Index>(i), sum);
    }
}

void compare_values(DType dtype, ByteView a, ByteView b, Tolerance tolerance, Index first,
                    Comparison& sum) {
    switch (dtype) {
        case DType::boolean:
        case DType::u8:
            return compare_integers<std::uint8_t>(a, b, first, sum);
        case DType::i8:
            return compare_integers<std::int8_t>(a, b, first, sum);
        case DType::u16:
            return compare_integers<std::uint16_t>(a, b, first, sum);
        case DType::i16:
            return compare_integers<std::int16_t>(a, b, first, sum);
        case DType::u32:
            return compare_integers<std::uint32_t>(a, b, first, sum);
        case DType::i32:
            return compare_integers<std::int32_t>(a, b, first, sum);
        case DType::u64:
            return compare_integers<std::uint64_t>(a, b, first, sum);
        case DType::i64:
            return compare_integers<std::int64_t>(a, b, first, sum);
        case DType::c64:
            return compare_complex(a, b, tolerance, first, sum);
        case DType::f8_e4m3:
        case DType::f8_e5m2:
        case DType::f8_e8m0:
        case DType::f8_e4m3fnuz:
        case DType::f8_e5m2fnuz:
        case DType::f16:
            return compare_as_f32(dtype, a, b, tolerance, first, sum);
        case DType::bf16:
            return compare_floats<DType::bf16>(a, b, tolerance, first, sum);
        case DType::f32:
            return compare_floats<DType::f32>(a, b, tolerance, first, sum);
        case DType::f64:
            return compare_floats<DType::f64>(a, b, tolerance, first, sum);
    }
}

template <typename T>
SHARDWELD_LOOP Index count_unequal(const std::byte* a, const std::byte* b, std::size_t n) {
    // As narrow as a block allows: so many more fit a register.
    std::conditional_t<sizeof(T) == 1, std::uint16_t, T> n_unequal = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const bool is_equal = load<T>(a, i) == load<T>(b, i);
        n_unequal = static_cast<decltype(n_unequal)>(n_unequal + (is_equal ? 0 : 1));
    }
    return static_cast<Index>(n_unequal);
}

Index unequal_bits(DType dtype, ByteView a, ByteView b) {
    const std::size_t size = size_of(dtype);
    const auto count = size == 1   ? loop_of<count_unequal<std::uint8_t>>()
                       : size == 2 ? loop_of<count_unequal<std::uint16_t>>()
                       : size == 4 ? loop_of<count_unequal<std::uint32_t>>()
                                   : loop_of<count_unequal<std::uint64_t>>();
    return count(a.data(), b.data(), a.size() / size);
}

/// How precise the types that are compared with each other are; 0: compared with itself only.
int precision(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return 4;
        case DType::f32:
            return 3;
        case DType::f16:
            return 2;
        case DType::bf16:
            return 1;
        default:
            return 0;
    }
}

}  // namespace

void Largest::add(const Largest& other) {
    if (other.error > error || (other.error == error && other.at >= 0 && other.at < at)) {
        *this = other;
    }
}

void Comparison::add(const Comparison& other) {
    n_elements += other.n_elements;
    n_unequal_bits += other.n_unequal_bits;
    n_different += other.n_different;
    n_nan += other.n_nan;
    absolute.add(other.absolute);
    relative.add(other.relative);
}

Comparison compare(DType dtype, ByteView a, ByteView b, Tolerance tolerance, Index first) {
    const std::size_t size = size_of(dtype);
    if (a.size() != b.size() || a.size() % size != 0) {
        throw Error(ErrorCode::internal, "comparison of " + std::to_string(a.size()) + " with " +
                                             std::to_string(b.size()) + " bytes of " +
                                             torch_name(dtype));
    }
    Comparison sum;
    sum.n_elements = static_cast<Index>(a.size() / size);
    for (std::size_t at = 0; at < a.size(); at += kComparedElements * size) {
        const std::size_t length = std::min(kComparedElements * size, a.size() - at);
        const ByteView x = a.subspan(at, length);
        const ByteView y = b.subspan(at, length);
        if (std::memcmp(x.data(), y.data(), length) != 0) {
            sum.n_unequal_bits += unequal_bits(dtype, x, y);
            compare_values(dtype, x, y, tolerance, first + static_cast<Index>(at / size), sum);
        }
    }
    return sum;
}

std::optional<DType> common_dtype(DType a, DType b) {
    if (a == b) {
        return a;
    }
    if (precision(a) == 0 || precision(b) == 0) {
        return std::nullopt;
    }
    return precision(a) < precision(b) ? a : b;
}

}  // namespace shardweld::numeric

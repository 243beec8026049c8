#include "compare.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "shardweld/error.hpp"

#include "convert.hpp"
#include "instruction_sets.hpp"

namespace shardweld::numeric {

namespace {

using Complex = std::complex<double>;

/// Elements looked at together: equal bytes need no arithmetic, and in most comparisons most are.
constexpr std::size_t kComparedElements = 1024;
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
T load(ByteView bytes, std::size_t at) {
    T value{};
    std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
    return value;
}

using Doubles = std::array<double, kComparedElements>;

/// E8M0 (OCP microscaling formats 1.0): powers of two, 2^(x - 127); 255 is NaN.
double value_of_e8m0(std::byte bits) {
    const int exponent = std::to_integer<int>(bits);
    return exponent == 255 ? std::numeric_limits<double>::quiet_NaN()
                           : std::ldexp(1.0, exponent - 127);
}

void load_doubles(DType dtype, ByteView bytes, Doubles& out) {
    if (dtype == DType::f8_e8m0) {
        std::ranges::transform(bytes, out.begin(), value_of_e8m0);
        return;
    }
    const std::size_t n = bytes.size() / size_of(dtype);
    convert(dtype, bytes, DType::f64, std::as_writable_bytes(std::span(out).first(n)));
}

/// Of a block: bits of the largest errors, which are in the order of their values, and how many
/// elements are not close. It tells nothing where `absolute` is no finite number's.
struct BlockErrors {
    std::int64_t absolute = 0;
    std::int64_t relative = 0;
    Index n_different = 0;
};

/// 0 for equal elements, zeros among them.
SHARDWELD_LOOP double ratio_of(double distance, double magnitude) {
    return distance / (distance == 0 ? 1 : magnitude);
}

/// Without a branch, for the vectoriser.
SHARDWELD_LOOP BlockErrors errors_loop(const double* a, const double* b, std::size_t n,
                                       double relative, double absolute) {
    BlockErrors errors;
    for (std::size_t i = 0; i < n; ++i) {
        const double distance = std::abs(a[i] - b[i]);
        const double magnitude = std::abs(b[i]);
        const auto of_distance = std::bit_cast<std::int64_t>(distance);
        const auto of_ratio = std::bit_cast<std::int64_t>(ratio_of(distance, magnitude));
        errors.absolute = errors.absolute > of_distance ? errors.absolute : of_distance;
        errors.relative = errors.relative > of_ratio ? errors.relative : of_ratio;
        errors.n_different += distance <= absolute + relative * magnitude ? 0 : 1;
    }
    return errors;
}

/// Makes the first of a block's errors that is `largest` the largest of all, if it is.
template <typename Error>
void raise_to_first(std::int64_t largest, Index first, const Error& error_at, Largest& of_all) {
    const auto error = std::bit_cast<double>(largest);
    if (error > of_all.error) {
        std::size_t i = 0;
        while (error_at(i) != error) {
            ++i;
        }
        of_all = {error, first + static_cast<Index>(i)};
    }
}

// Of two runs of at most a block's elements each, of which the first has the index `first`.

void compare_floats(DType dtype, ByteView a, ByteView b, Tolerance tolerance, Index first,
                    Comparison& sum) {
    static const auto errors_of = has_avx512() ? Avx512<errors_loop>::run
                                  : has_avx2() ? Avx2<errors_loop>::run
                                               : Portable<errors_loop>::run;
    Doubles x{};
    Doubles y{};
    load_doubles(dtype, a, x);
    load_doubles(dtype, b, y);
    const std::size_t n = a.size() / size_of(dtype);
    const BlockErrors errors =
        errors_of(x.data(), y.data(), n, tolerance.relative, tolerance.absolute);
    if (!std::isfinite(std::bit_cast<double>(errors.absolute))) {
        for (std::size_t i = 0; i < n; ++i) {
            add_gap(gap_of(x[i], y[i]), tolerance, first + static_cast<Index>(i), sum);
        }
        return;
    }
    const auto distance_at = [&](std::size_t i) { return std::abs(x[i] - y[i]); };
    sum.n_different += errors.n_different;
    raise_to_first(errors.absolute, first, distance_at, sum.absolute);
    raise_to_first(
        errors.relative, first,
        [&](std::size_t i) { return ratio_of(distance_at(i), std::abs(y[i])); }, sum.relative);
}

void compare_complex(ByteView a, ByteView b, Tolerance tolerance, Index first, Comparison& sum) {
    for (std::size_t i = 0; i * sizeof(std::complex<float>) < a.size(); ++i) {
        const Complex x = load<std::complex<float>>(a, i);
        const Complex y = load<std::complex<float>>(b, i);
        add_gap(gap_of(x, y), tolerance, first + static_cast<Index>(i), sum);
    }
}

template <typename T>
void compare_integers(ByteView a, ByteView b, Index first, Comparison& sum) {
    for (std::size_t i = 0; i * sizeof(T) < a.size(); ++i) {
        const Gap gap = integer_gap(load<T>(a, i), load<T>(b, i));
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
        case DType::bf16:
        case DType::f32:
        case DType::f64:
            return compare_floats(dtype, a, b, tolerance, first, sum);
    }
}

template <typename T>
Index count_unequal(ByteView a, ByteView b) {
    Index n = 0;
    for (std::size_t i = 0; i * sizeof(T) < a.size(); ++i) {
        n += load<T>(a, i) != load<T>(b, i) ? 1 : 0;
    }
    return n;
}

Index unequal_bits(DType dtype, ByteView a, ByteView b) {
    switch (size_of(dtype)) {
        case 1:
            return count_unequal<std::uint8_t>(a, b);
        case 2:
            return count_unequal<std::uint16_t>(a, b);
        case 4:
            return count_unequal<std::uint32_t>(a, b);
        default:
            return count_unequal<std::uint64_t>(a, b);
    }
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

#include "census.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "shardweld/error.hpp"

#include "instruction_sets.hpp"

namespace shardweld::numeric {

namespace {

/// The bits of a type: `magnitude` masks the sign away; a magnitude of `infinity` is one, a larger
/// one is a NaN. Where a type has no infinities that is the largest number instead.
template <typename Word>
struct FloatForm {
    Word magnitude;
    Word infinity;
    bool has_infinity;
};

constexpr FloatForm<std::uint8_t> kE4m3{0x7F, 0x7E, false};
constexpr FloatForm<std::uint8_t> kE5m2{0x7F, 0x7C, true};
constexpr FloatForm<std::uint8_t> kE8m0{0xFF, 0xFE, false};
constexpr FloatForm<std::uint16_t> kF16{0x7FFF, 0x7C00, true};
constexpr FloatForm<std::uint16_t> kBf16{0x7FFF, 0x7F80, true};
constexpr FloatForm<std::uint32_t> kF32{0x7FFFFFFF, 0x7F800000, true};
constexpr FloatForm<std::uint64_t> kF64{0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000, true};

template <typename Word>
Word word_at(const std::byte* bytes, std::size_t i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    return word;
}

/// What most elements need: the largest magnitude and the bits in which elements differ.
template <typename Word>
struct Extremes {
    Word largest = 0;
    Word different = 0;
    Index n_zero = 0;
};

// What is looked at again where it holds something odd.
constexpr std::size_t kPartBytes = 16384;

/// Without a branch, for the vectoriser, which takes signed maxima of two bytes on any x86-64. At
/// most kPartBytes.
template <typename Word>
SHARDWELD_LOOP Extremes<Word> extremes_loop(const std::byte* bytes, std::size_t n, Word magnitude,
                                            Word first) {
    using Signed = std::conditional_t<sizeof(Word) == 1, std::uint8_t, std::make_signed_t<Word>>;
    // Zeros that a word can count, in whole vectors.
    constexpr std::size_t kCounted = sizeof(Word) == 1 ? 192 : kPartBytes;
    Signed largest = 0;
    Word different = 0;
    Index n_zeros = 0;
    for (std::size_t begin = 0; begin < n; begin += kCounted) {
        const std::size_t end = std::min(n, begin + kCounted);
        Word n_zero = 0;
        for (std::size_t i = begin; i < end; ++i) {
            const Word word = word_at<Word>(bytes, i);
            const auto size = static_cast<Signed>(word & magnitude);
            largest = largest > size ? largest : size;
            different = static_cast<Word>(different | (word ^ first));
            n_zero = static_cast<Word>(n_zero + (size == 0 ? 1 : 0));
        }
        n_zeros += static_cast<Index>(n_zero);
    }
    return {static_cast<Word>(largest), different, n_zeros};
}

template <typename Word>
void count_odd(const std::byte* bytes, std::size_t n, const FloatForm<Word>& form, Census& census) {
    for (std::size_t i = 0; i < n; ++i) {
        const Word size = static_cast<Word>(word_at<Word>(bytes, i) & form.magnitude);
        census.n_nan += size > form.infinity ? 1 : 0;
        census.n_inf += form.has_infinity && size == form.infinity ? 1 : 0;
    }
}

template <typename Word>
Census census_of(const FloatForm<Word>& form, ByteView bytes) {
    constexpr std::size_t kPart = kPartBytes / sizeof(Word);
    const std::size_t n = bytes.size() / sizeof(Word);
    Census census;
    census.n_elements = static_cast<Index>(n);
    const auto extremes_of = loop_of<extremes_loop<Word>>();
    const Word first = n == 0 ? Word{0} : word_at<Word>(bytes.data(), 0);
    census.bits = first;
    for (std::size_t begin = 0; begin < n; begin += kPart) {
        const std::byte* part = bytes.data() + begin * sizeof(Word);
        const std::size_t size = std::min(kPart, n - begin);
        const auto found = extremes_of(part, size, form.magnitude, first);
        census.is_constant = census.is_constant && found.different == 0;
        census.n_zero += found.n_zero;
        census.has_nonzero = census.has_nonzero || found.largest != 0;
        const bool may_be_odd =
            form.has_infinity ? found.largest >= form.infinity : found.largest > form.infinity;
        if (may_be_odd) {
            count_odd(part, size, form, census);
        }
    }
    return census;
}

/// A zero with a sign is the only NaN.
Census census_of_fnuz(ByteView bytes) {
    Census census = census_of(FloatForm<std::uint8_t>{0xFF, 0xFF, false}, bytes);
    census.n_zero = static_cast<Index>(std::ranges::count(bytes, std::byte{0}));
    census.n_nan = static_cast<Index>(std::ranges::count(bytes, std::byte{0x80}));
    return census;
}

}  // namespace

void Census::add(const Census& other) {
    if (other.n_elements == 0) {
        return;
    }
    is_constant = n_elements == 0 ? other.is_constant
                                  : is_constant && other.is_constant && bits == other.bits;
    bits = n_elements == 0 ? other.bits : bits;
    n_elements += other.n_elements;
    n_nan += other.n_nan;
    n_inf += other.n_inf;
    n_zero += other.n_zero;
    has_nonzero = has_nonzero || other.has_nonzero;
}

bool is_counted(DType dtype) {
    return is_float(dtype) || dtype == DType::f8_e8m0;
}

Census take_census(DType dtype, ByteView bytes) {
    if (bytes.size() % size_of(dtype) != 0) {
        throw Error(ErrorCode::internal, "a census of a fraction of an element");
    }
    switch (dtype) {
        case DType::f8_e4m3:
            return census_of(kE4m3, bytes);
        case DType::f8_e5m2:
            return census_of(kE5m2, bytes);
        case DType::f8_e8m0:
            return census_of(kE8m0, bytes);
        case DType::f8_e4m3fnuz:
        case DType::f8_e5m2fnuz:
            return census_of_fnuz(bytes);
        case DType::f16:
            return census_of(kF16, bytes);
        case DType::bf16:
            return census_of(kBf16, bytes);
        case DType::f32:
            return census_of(kF32, bytes);
        case DType::f64:
            return census_of(kF64, bytes);
        case DType::boolean:
        case DType::u8:
        case DType::i8:
        case DType::u16:
        case DType::i16:
        case DType::u32:
        case DType::i32:
        case DType::u64:
        case DType::i64:
        case DType::c64:
            break;
    }
    throw Error(ErrorCode::internal, "a census of elements that are no floats");
}

}  // namespace shardweld::numeric

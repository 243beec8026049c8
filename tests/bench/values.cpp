#include "values.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace shardweld::bench {

namespace {

constexpr std::uint64_t kLowRange = std::uint64_t{1} << 32U;

std::uint64_t scrambled(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
}

std::uint64_t hash_of(std::string_view name, std::uint64_t seed) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const char letter : name) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
    }
    return scrambled(hash + scrambled(seed));
}

// Sign and mantissa vary freely, the exponent between 2^-7 and 2^0: never NaN, infinity or zero.
template <typename Word>
constexpr std::uint32_t kFree = sizeof(Word) == 2 ? 0x83FFU : 0x83FFFFFFU;
template <typename Word>
constexpr std::uint32_t kFixed = sizeof(Word) == 2 ? 0x3C00U : 0x3C000000U;

template <typename Word>
Word word_at(std::uint32_t index, std::uint32_t salt) {
    std::uint32_t x = (index * 0x9E3779B1U) ^ salt;
    x = (x ^ (x >> 15U)) * 0x85EBCA77U;
    x ^= x >> 13U;
    return static_cast<Word>((x & kFree<Word>) | kFixed<Word>);
}

/// The low half is less than half a unit of the high one, which is the bf16 element.
std::uint32_t master_at(std::uint32_t index, std::uint32_t salt) {
    return std::uint32_t{word_at<std::uint16_t>(index, salt)} << 16U |
           (word_at<std::uint32_t>(index, salt) & 0x7FFFU);
}

std::uint32_t square_at(std::uint32_t index, std::uint32_t salt) {
    return word_at<std::uint32_t>(index, salt) & 0x7FFFFFFFU;
}

template <typename Word>
void fill_words(std::uint64_t hash, std::uint64_t first, std::span<std::byte> out,
                Word (*element_at)(std::uint32_t, std::uint32_t) = word_at<Word>) {
    std::array<Word, 2048> block{};
    while (!out.empty()) {
        const auto low = static_cast<std::uint32_t>(first);
        const auto salt = static_cast<std::uint32_t>(scrambled(hash + (first >> 32U)));
        const auto n =
            std::min<std::uint64_t>({block.size(), out.size() / sizeof(Word), kLowRange - low});
        for (std::size_t i = 0; i < n; ++i) {
            block[i] = element_at(low + static_cast<std::uint32_t>(i), salt);
        }
        std::memcpy(out.data(), block.data(), n * sizeof(Word));
        out = out.subspan(n * sizeof(Word));
        first += n;
    }
}

}  // namespace

void fill(const Values& values, std::string_view name, std::uint64_t first,
          std::span<std::byte> out) {
    const std::uint64_t hash = hash_of(name, values.seed);
    if (values.is_sparse) {
        std::fill(out.begin(), out.end(), std::byte{0});
    } else if (values.dtype == DType::f32) {
        fill_words<std::uint32_t>(hash, first, out,
                                  values.is_master   ? master_at
                                  : values.is_square ? square_at
                                                     : word_at<std::uint32_t>);
    } else {
        fill_words<std::uint16_t>(hash, first, out);
    }
}

void BandStream::read(std::span<std::byte> out) {
    const Bytes width = size_of(values_.dtype);
    while (!out.empty()) {
        const Band& band = bands_[band_];
        const Index row = done_ / band.n_columns;
        const Index column = done_ % band.n_columns;
        // Whole rows of the tensor follow each other without a gap.
        const bool is_whole = band.n_columns == band.n_columns_of_tensor;
        const Index run = is_whole ? band.volume() - done_ : band.n_columns - column;
        const Index n = std::min(run, static_cast<Index>(out.size() / width));
        const Index first = (band.row + row) * band.n_columns_of_tensor + band.column + column;
        const std::size_t size = static_cast<std::size_t>(n) * width;
        fill(values_, band.tensor, static_cast<std::uint64_t>(first), out.first(size));
        out = out.subspan(size);
        done_ += n;
        if (done_ == band.volume()) {
            ++band_;
            done_ = 0;
        }
    }
}

}  // namespace shardweld::bench

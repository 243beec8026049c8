#include "crc32.hpp"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <isa-l/crc.h>

#include "text.hpp"

namespace shardweld {

namespace {

// Polynomials over GF(2) modulo that of the CRC, bits reversed: the highest bit is x^0.
using Polynomial = std::uint32_t;
constexpr Polynomial kModulus = 0xEDB88320U;
constexpr Polynomial kOne = 0x80000000U;
constexpr Polynomial kX8 = kOne >> 8U;

constexpr Polynomial product(Polynomial a, Polynomial b) {
    Polynomial sum = 0;
    for (Polynomial bit = kOne; bit != 0; bit >>= 1U) {
        sum ^= (a & bit) != 0 ? b : 0U;
        b = (b >> 1U) ^ ((b & 1U) != 0 ? kModulus : 0U);
    }
    return sum;
}

/// [k]: what 2^k bytes multiply a sum by.
constexpr auto make_powers() {
    std::array<Polynomial, 64> powers{kX8};
    for (std::size_t k = 1; k < powers.size(); ++k) {
        powers[k] = product(powers[k - 1], powers[k - 1]);
    }
    return powers;
}

constexpr auto kPowers = make_powers();

#if defined(__x86_64__)
[[gnu::target("avx")]] void clear_upper_halves() {
    _mm256_zeroupper();
}
#endif

/// ISA-L's AVX code leaves the upper halves of vector registers in use, and SSE code behind it is
/// two to three times slower for that, for as long as they are.
void release_vectors() {
#if defined(__x86_64__)
    static const bool has_avx = __builtin_cpu_supports("avx") != 0;
    if (has_avx) {
        clear_upper_halves();
    }
#endif
}

}  // namespace

std::uint32_t crc32(ByteView bytes, std::uint32_t seed) {
    const std::uint32_t sum =
        crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    release_vectors();
    return sum;
}

std::uint32_t crc32_moved(std::uint32_t sum, Bytes n_bytes) {
    for (std::size_t k = 0; n_bytes != 0; ++k, n_bytes >>= 1U) {
        if ((n_bytes & 1U) != 0) {
            sum = product(kPowers[k], sum);
        }
    }
    return sum;
}

std::string wrong_crc32(std::uint32_t found, std::uint32_t stated) {
    return formatted(
        " has the CRC-32 %08x, the file says %08x: its bytes were changed since it was saved",
        found, stated);
}

}  // namespace shardweld

// Casts of f16 by the processor's own instructions, which no loop is compiled to.
#include <cstring>

#include "kernels.hpp"
#include "scalar.hpp"

#if defined(__x86_64__)

#include <cpuid.h>

#include <immintrin.h>

#define SHARDWELD_F16C __attribute__((target("avx2,f16c")))

namespace shardweld::numeric {

namespace {

SHARDWELD_F16C void f32_to_f16(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 values = _mm256_loadu_ps(reinterpret_cast<const float*>(src + i * 4));
        const __m128i halves = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
        // The instruction keeps the payload of a NaN; ours is the default one.
        const __m128i magnitude = _mm_and_si128(halves, _mm_set1_epi16(0x7FFF));
        const __m128i is_nan = _mm_cmpgt_epi16(magnitude, _mm_set1_epi16(0x7C00));
        const __m128i sign = _mm_andnot_si128(_mm_set1_epi16(0x7FFF), halves);
        const __m128i nan = _mm_or_si128(sign, _mm_set1_epi16(0x7E00));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i * 2),
                         _mm_blendv_epi8(halves, nan, is_nan));
    }
    for (; i < n; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, src + i * 4, sizeof(bits));
        const std::uint16_t half = f16_from_f32(bits);
        std::memcpy(dst + i * 2, &half, sizeof(half));
    }
}

SHARDWELD_F16C void f16_to_f32(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * 2));
        _mm256_storeu_ps(reinterpret_cast<float*>(dst + i * 4), _mm256_cvtph_ps(halves));
    }
    for (; i < n; ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, src + i * 2, sizeof(half));
        const std::uint32_t bits = f32_from_f16(half);
        std::memcpy(dst + i * 4, &bits, sizeof(bits));
    }
}

}  // namespace

/// Asked of the processor itself: clang 14 does not know the name "f16c".
bool has_f16c() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

Kernels with_f16c(Kernels kernels) {
    if (has_f16c()) {
        kernels.f16_to_f32 = f16_to_f32;
        kernels.f32_to_f16 = f32_to_f16;
    }
    return kernels;
}

}  // namespace shardweld::numeric

#else

namespace shardweld::numeric {

bool has_f16c() {
    return false;
}

Kernels with_f16c(Kernels kernels) {
    return kernels;
}

}  // namespace shardweld::numeric

#endif

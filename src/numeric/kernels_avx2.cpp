#include "kernels.hpp"

#if defined(__x86_64__)

#include <cpuid.h>

#include <immintrin.h>

// Each kernel ends with a call that GCC makes a jump and before which it forgets vzeroupper: with
// the registers' upper halves in use all SSE code behind it would take many times as long.
#define SHARDWELD_AVX2 __attribute__((target("avx2,f16c")))

namespace shardweld::numeric {

namespace {

SHARDWELD_AVX2 __m256i load_256(const std::byte* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
}

SHARDWELD_AVX2 __m128i load_128(const std::byte* src) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
}

SHARDWELD_AVX2 void store_256(std::byte* dst, __m256i value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), value);
}

SHARDWELD_AVX2 void store_128(std::byte* dst, __m128i value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), value);
}

/// Eight bf16 in the low halves of 32-bit lanes.
SHARDWELD_AVX2 __m256i bf16_lanes(__m256i bits) {
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i even = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i biased =
        _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7FFF)));
    const __m256i rounded = _mm256_srli_epi32(biased, 16);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7F800000));
    const __m256i nan = _mm256_or_si256(_mm256_and_si256(high, _mm256_set1_epi32(0x8000)),
                                        _mm256_set1_epi32(0x7FC0));
    return _mm256_blendv_epi8(rounded, nan, is_nan);
}

SHARDWELD_AVX2 void f32_to_bf16(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i lo = bf16_lanes(load_256(src + i * 4));
        const __m256i hi = bf16_lanes(load_256(src + i * 4 + 32));
        // The pack interleaves halves of both inputs; the permutation puts them in order.
        store_256(dst + i * 2, _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xD8));
    }
    _mm256_zeroupper();
    portable_kernels().f32_to_bf16(src + i * 4, dst + i * 2, n - i);
}

SHARDWELD_AVX2 void f32_to_f16(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 values = _mm256_castsi256_ps(load_256(src + i * 4));
        const __m128i halves = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
        // The instruction keeps the payload of a NaN; ours is the default one.
        const __m128i magnitude = _mm_and_si128(halves, _mm_set1_epi16(0x7FFF));
        const __m128i is_nan = _mm_cmpgt_epi16(magnitude, _mm_set1_epi16(0x7C00));
        const __m128i sign = _mm_andnot_si128(_mm_set1_epi16(0x7FFF), halves);
        const __m128i nan = _mm_or_si128(sign, _mm_set1_epi16(0x7E00));
        store_128(dst + i * 2, _mm_blendv_epi8(halves, nan, is_nan));
    }
    _mm256_zeroupper();
    portable_kernels().f32_to_f16(src + i * 4, dst + i * 2, n - i);
}

SHARDWELD_AVX2 void bf16_to_f32(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i lanes = _mm256_cvtepu16_epi32(load_128(src + i * 2));
        store_256(dst + i * 4, _mm256_slli_epi32(lanes, 16));
    }
    _mm256_zeroupper();
    portable_kernels().bf16_to_f32(src + i * 2, dst + i * 4, n - i);
}

SHARDWELD_AVX2 void f16_to_f32(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 values = _mm256_cvtph_ps(load_128(src + i * 2));
        store_256(dst + i * 4, _mm256_castps_si256(values));
    }
    _mm256_zeroupper();
    portable_kernels().f16_to_f32(src + i * 2, dst + i * 4, n - i);
}

SHARDWELD_AVX2 void f64_to_f32(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128 values = _mm256_cvtpd_ps(_mm256_castsi256_pd(load_256(src + i * 8)));
        store_128(dst + i * 4, _mm_castps_si128(values));
    }
    _mm256_zeroupper();
    portable_kernels().f64_to_f32(src + i * 8, dst + i * 4, n - i);
}

SHARDWELD_AVX2 void f64_to_f32_odd(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d value = _mm256_castsi256_pd(load_256(src + i * 8));
        const __m256d sign = _mm256_and_pd(value, _mm256_set1_pd(-0.0));
        const __m256d exact = _mm256_andnot_pd(_mm256_set1_pd(-0.0), value);
        const __m128 nearest = _mm256_cvtpd_ps(exact);
        const __m256d back = _mm256_cvtps_pd(nearest);
        // Masks of 64 bits narrowed to 32: their even 32-bit lanes.
        const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
        const auto narrow = [even](__m256d mask) SHARDWELD_AVX2 {
            return _mm256_castsi256_si128(
                _mm256_permutevar8x32_epi32(_mm256_castpd_si256(mask), even));
        };
        const __m128i above = narrow(_mm256_cmp_pd(back, exact, _CMP_GT_OQ));
        const __m128i inexact = narrow(_mm256_cmp_pd(back, exact, _CMP_NEQ_OQ));
        const __m128i truncated = _mm_add_epi32(_mm_castps_si128(nearest), above);  // a mask is -1
        const __m128i odd = _mm_or_si128(truncated, _mm_srli_epi32(inexact, 31));
        const __m128 signs = _mm256_cvtpd_ps(sign);
        store_128(dst + i * 4, _mm_or_si128(odd, _mm_castps_si128(signs)));
    }
    _mm256_zeroupper();
    portable_kernels().f64_to_f32_odd(src + i * 8, dst + i * 4, n - i);
}

SHARDWELD_AVX2 void f32_to_f64(const std::byte* src, std::byte* dst, std::size_t n) {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d values = _mm256_cvtps_pd(_mm_castsi128_ps(load_128(src + i * 4)));
        store_256(dst + i * 8, _mm256_castpd_si256(values));
    }
    _mm256_zeroupper();
    portable_kernels().f32_to_f64(src + i * 4, dst + i * 8, n - i);
}

/// Asked of the processor itself: clang 14 does not know the name "f16c".
bool has_f16c() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

const Kernels* avx2_kernels() {
    static constexpr Kernels kAvx2{bf16_to_f32, f16_to_f32,     f32_to_bf16, f32_to_f16,
                                   f64_to_f32,  f64_to_f32_odd, f32_to_f64};
    static const bool available = __builtin_cpu_supports("avx2") != 0 && has_f16c();
    return available ? &kAvx2 : nullptr;
}

}  // namespace shardweld::numeric

#else

namespace shardweld::numeric {

const Kernels* avx2_kernels() {
    return nullptr;
}

}  // namespace shardweld::numeric

#endif

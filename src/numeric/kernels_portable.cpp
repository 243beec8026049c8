#include <cstring>

#include "kernels.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

template <typename T>
T load(const std::byte* src, std::size_t index) {
    T value{};
    std::memcpy(&value, src + index * sizeof(T), sizeof(T));
    return value;
}

template <typename T>
void store(std::byte* dst, std::size_t index, T value) {
    std::memcpy(dst + index * sizeof(T), &value, sizeof(T));
}

/// Applies `Cast` to each element. The inner loop has a fixed length: compilers vectorise it at
/// -O2.
template <auto Cast, typename From>
void cast_all(const std::byte* src, std::byte* dst, std::size_t n) {
    constexpr std::size_t kBlock = 16;
    std::size_t done = 0;
    for (; done + kBlock <= n; done += kBlock) {
        for (std::size_t i = 0; i < kBlock; ++i) {
            store(dst, done + i, Cast(load<From>(src, done + i)));
        }
    }
    for (; done < n; ++done) {
        store(dst, done, Cast(load<From>(src, done)));
    }
}

float narrow(double value) {
    return static_cast<float>(value);
}
double widen(float value) {
    return static_cast<double>(value);
}

}  // namespace

const Kernels& portable_kernels() {
    static constexpr Kernels kPortable{
        cast_all<f32_from_bf16, std::uint16_t>,
        cast_all<f32_from_f16, std::uint16_t>,
        cast_all<bf16_from_f32, std::uint32_t>,
        cast_all<f16_from_f32, std::uint32_t>,
        cast_all<narrow, double>,
        cast_all<f32_from_f64_odd, std::uint64_t>,
        cast_all<widen, float>,
    };
    return kPortable;
}

const Kernels& best_kernels() {
    const Kernels* fast = avx2_kernels();
    return fast != nullptr ? *fast : portable_kernels();
}

}  // namespace shardweld::numeric

// The loops are written once and compiled for each instruction set.
#include "kernels.hpp"

#include <cstring>

#include "instruction_sets.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

template <auto Cast, typename From>
SHARDWELD_LOOP void cast_all(const std::byte* __restrict src, std::byte* __restrict dst,
                             std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        From value{};
        std::memcpy(&value, src + i * sizeof(value), sizeof(value));
        const auto result = Cast(value);
        std::memcpy(dst + i * sizeof(result), &result, sizeof(result));
    }
}

SHARDWELD_LOOP float narrow(double value) {
    return static_cast<float>(value);
}
SHARDWELD_LOOP double widen(float value) {
    return static_cast<double>(value);
}

template <template <auto> class Set>
constexpr Kernels kKernels{
    Set<cast_all<f32_from_bf16, std::uint16_t>>::run,
    Set<cast_all<f32_from_f16, std::uint16_t>>::run,
    Set<cast_all<bf16_from_f32, std::uint32_t>>::run,
    Set<cast_all<f16_from_f32, std::uint32_t>>::run,
    Set<cast_all<narrow, double>>::run,
    Set<cast_all<f32_from_f64_odd, std::uint64_t>>::run,
    Set<cast_all<widen, float>>::run,
};

}  // namespace

const Kernels& best_kernels() {
    static const Kernels avx2 = with_f16c(kKernels<Avx2>);
    static const Kernels avx512 = with_f16c(kKernels<Avx512>);
    const InstructionSet set = instruction_set();
    return set == InstructionSet::avx512 ? avx512
           : set == InstructionSet::avx2 ? avx2
                                         : kKernels<Portable>;
}

}  // namespace shardweld::numeric

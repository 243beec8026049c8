// Inputs on which casts go wrong when they do, casts of single elements, and loops of all
// instruction sets. Knows nothing of expected results.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "numeric/convert.hpp"
#include "numeric/instruction_sets.hpp"

namespace shardweld::numeric {

template <typename To, typename From>
To cast_one(DType from, From value, DType to) {
    To result{};
    convert(from, std::as_bytes(std::span(&value, 1)), to,
            std::as_writable_bytes(std::span(&result, 1)));
    return result;
}

/// Calls `check` with the loops of each instruction set that this processor has.
template <typename Check>
void with_each_instruction_set(Check check) {
    const InstructionSet widest = instruction_set();
    for (const InstructionSet set :
         {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512}) {
        if (set <= widest) {
            instruction_set() = set;
            check();
        }
    }
    instruction_set() = widest;
}

inline std::vector<std::uint16_t> all_16_bit_patterns() {
    std::vector<std::uint16_t> patterns(65536);
    for (std::size_t i = 0; i < patterns.size(); ++i) {
        patterns[i] = static_cast<std::uint16_t>(i);
    }
    return patterns;
}

/// Neighbours of every value and midpoint of the 16-bit types: ties, subnormals, boundaries, NaNs.
inline std::vector<std::uint32_t> critical_f32() {
    std::vector<std::uint32_t> samples;
    const std::uint32_t offsets[] = {0xFFFFFFFF, 0, 1};
    for (std::uint32_t upper = 0; upper < 65536; ++upper) {
        // bf16 keeps 16 bits; f16 keeps 19 of normal numbers and less of subnormals.
        for (const std::uint32_t lower :
             {0U, 0x1000U, 0x2000U, 0x3000U, 0x4000U, 0x8000U, 0xC000U, 0xF000U}) {
            for (const std::uint32_t offset : offsets) {
                samples.push_back((upper << 16U) + lower + offset);
            }
        }
    }
    return samples;
}

/// Every 2^shift-th pattern, the lower bits scattered.
inline std::vector<std::uint32_t> spread_f32(unsigned shift) {
    std::vector<std::uint32_t> samples(std::size_t{1} << (32U - shift));
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const auto scattered = static_cast<std::uint32_t>(i * 2654435761U) >> (32U - shift);
        samples[i] = (static_cast<std::uint32_t>(i) << shift) + scattered;
    }
    return samples;
}

}  // namespace shardweld::numeric

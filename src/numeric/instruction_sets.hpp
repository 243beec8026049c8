// Loops that are written once and compiled for each instruction set.
#pragma once

#include <cstdint>

/// A loop that is compiled where it is called: for the instruction set of its caller.
#define SHARDWELD_LOOP inline __attribute__((always_inline))

namespace shardweld::numeric {

// NAME<Loop>::run is the loop, compiled for ATTRIBUTE.
// NOLINTBEGIN(bugprone-macro-parentheses): a name and an attribute
#define SHARDWELD_INSTRUCTION_SET(NAME, ATTRIBUTE)                                \
    template <auto Loop>                                                          \
    struct NAME;                                                                  \
    template <typename Result, typename... Values, Result (*Loop)(Values...)>     \
    struct NAME<Loop> {                                                           \
        ATTRIBUTE static Result run(Values... values) { return Loop(values...); } \
    };
// NOLINTEND(bugprone-macro-parentheses)

SHARDWELD_INSTRUCTION_SET(Portable, )
#if defined(__x86_64__)
SHARDWELD_INSTRUCTION_SET(Avx2, __attribute__((target("avx2,fma"))))
SHARDWELD_INSTRUCTION_SET(Avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
inline bool has_avx2() {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}
inline bool has_avx512() {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
}
#else
template <auto Loop>
using Avx2 = Portable<Loop>;
template <auto Loop>
using Avx512 = Portable<Loop>;
inline bool has_avx2() {
    return false;
}
inline bool has_avx512() {
    return false;
}
#endif

#undef SHARDWELD_INSTRUCTION_SET

enum class InstructionSet : std::uint8_t { portable, avx2, avx512 };

/// What loop_of chooses: the widest one that this processor has. Tests narrow it.
inline InstructionSet& instruction_set() {
    static InstructionSet set = has_avx512() ? InstructionSet::avx512
                                : has_avx2() ? InstructionSet::avx2
                                             : InstructionSet::portable;
    return set;
}

/// The loop, compiled for that set.
template <auto Loop>
auto loop_of() {
    return instruction_set() == InstructionSet::avx512 ? Avx512<Loop>::run
           : instruction_set() == InstructionSet::avx2 ? Avx2<Loop>::run
                                                       : Portable<Loop>::run;
}

}  // namespace shardweld::numeric

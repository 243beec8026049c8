// Speed of numeric::take_census on elements in the processor's cache and in memory, beside memcpy.
// Knows nothing of files; prints one line per case.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "numeric/census.hpp"

namespace {

using shardweld::DType;
using shardweld::Index;
using Memory = std::vector<std::byte>;

/// Bytes a nanosecond of the fastest of some calls.
template <typename Call>
double speed(std::size_t bytes, const Call& call) {
    double best = 1e9;
    for (int i = 0; i < 15; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        best = std::min(best, taken.count());
    }
    return static_cast<double>(bytes) / best / 1e9;
}

/// No NaN and no infinity of any type, and no two elements alike for long.
Memory usual(std::size_t bytes) {
    Memory memory(bytes);
    unsigned state = 1;
    for (std::byte& byte : memory) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::byte>((state >> 24U) & 0x33U);
    }
    return memory;
}

}  // namespace

int main() {
    Index n_seen = 0;
    for (const std::size_t mebibytes : {1U, 64U}) {
        const Memory memory = usual(mebibytes << 20U);
        Memory copy(memory.size());
        std::printf("%2zu MiB  memcpy    %6.1f GB/s\n", mebibytes, speed(memory.size(), [&] {
                        std::memcpy(copy.data(), memory.data(), memory.size());
                    }));
        for (const DType dtype :
             {DType::bf16, DType::f16, DType::f32, DType::f64, DType::f8_e4m3}) {
            std::printf("%2zu MiB  %-8s  %6.1f GB/s\n", mebibytes,
                        std::string(shardweld::safetensors_name(dtype)).c_str(),
                        speed(memory.size(), [&] {
                            n_seen += shardweld::numeric::take_census(dtype, memory).n_elements;
                        }));
        }
    }
    return n_seen > 0 ? 0 : 1;
}

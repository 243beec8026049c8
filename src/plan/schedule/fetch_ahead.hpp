// Has the processor fetch targets before a loop over them comes to them: a million of them, and
// what they are made of, lie far apart in memory.
#pragma once

#include <cstddef>

#include "plan/binding.hpp"

namespace shardweld::plan {

/// Has the processor fetch all of an object.
template <typename T>
void prefetch(const T& object) {
    constexpr std::size_t kLine = 64;
    for (std::size_t at = 0; at < sizeof(T); at += kLine) {
        __builtin_prefetch(reinterpret_cast<const char*>(&object) + at);
    }
}

/// Fetches what stands some places further on in a loop that has `n_left` places left;
/// `target_at(n)` is the target n places ahead.
template <typename TargetAt>
void fetch_ahead(std::size_t n_left, const TargetAt& target_at) {
    constexpr std::size_t kOperands = 6;
    constexpr std::size_t kTarget = 12;
    if (kTarget < n_left) {
        prefetch(target_at(kTarget));
        const Target& near = target_at(kOperands);
        if (!near.operands.empty()) {
            prefetch(near.operands.front());
        }
    }
}

}  // namespace shardweld::plan

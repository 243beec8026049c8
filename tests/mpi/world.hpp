// The ranks that the MPI tests run on, and an assertion that keeps them together.
// Knows nothing of what is tested.
#pragma once

#include <gtest/gtest.h>

#include "mpi/comm.hpp"

namespace shardweld::mpi {

/// All ranks of this run (one when started without mpirun).
Comm& world();

/// Whether `mine` holds on all ranks. Collective.
inline bool holds_everywhere(bool mine) {
    return world().all_max(mine ? 0 : 1) == 0;
}

inline std::size_t index_of(int rank) {
    return static_cast<std::size_t>(rank);
}
inline unsigned seed_of(int rank) {
    return static_cast<unsigned>(rank);
}

/// Bytes that differ from seed to seed and have no short period.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::vector<std::byte> bytes(size);
    unsigned state = seed * 2654435761U + 1;
    for (auto& byte : bytes) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::byte>(state >> 24U);
    }
    return bytes;
}

}  // namespace shardweld::mpi

/// Ends the test on all ranks when the condition is false on one: an ASSERT_ on one rank alone
/// would leave the others waiting in the next collective call. Collective.
#define ASSERT_COLLECTIVE(condition)                              \
    if (const bool condition_here = static_cast<bool>(condition); \
        ::shardweld::mpi::holds_everywhere(condition_here)) {     \
    } else                                                        \
        FAIL() << (condition_here ? "another rank failed: " : "this rank failed: ") << #condition

#include "../../../src/formats/shared/pickle_arena.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "shardweld/formats/shared/pickle.hpp"

namespace shardweld::formats {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20U;

std::unique_ptr<std::byte[]> other_memory() {
    return std::make_unique_for_overwrite<std::byte[]>(kChunk);  // would get what was given back
}

TEST(PickleArena, memory_is_kept_for_the_next) {
    const PickleMemory memory;
    std::optional<PickleArena> arena(kChunk);
    const void* const first = arena->allocate(kChunk / 8);
    const void* const second = arena->allocate(kChunk / 8);
    arena.reset();
    const auto other = other_memory();
    arena.emplace(kChunk);
    EXPECT_EQ(arena->allocate(kChunk / 8), first);
    EXPECT_EQ(arena->allocate(kChunk / 8), second);
}

TEST(PickleArena, memory_ends_with_its_owner) {
    std::optional<PickleArena> arena;
    {
        const PickleMemory outer;
        {
            const PickleMemory memory;
            arena.emplace(kChunk);
            (void)arena->allocate(8);
            arena.reset();
            arena.emplace(kChunk);
        }
        // The memory is gone, not so the arena that uses a part of it.
        std::memset(arena->allocate(kChunk / 8), 1, kChunk / 8);
        const void* const kept = arena->allocate(8);
        arena.reset();
        const auto other = other_memory();
        arena.emplace(kChunk);
        (void)arena->allocate(kChunk / 8);
        EXPECT_EQ(arena->allocate(8), kept);
    }
    arena.reset();
}

}  // namespace
}  // namespace shardweld::formats

#include "formats/containers/pickle_arena.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "formats/containers/pickle.hpp"

namespace shardweld::formats {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20U;

// Enough for an arena that begins with a large chunk.
std::vector<std::byte> many_bytes() {
    return std::vector<std::byte>(kChunk / 4);
}

std::unique_ptr<std::byte[]> other_memory() {
    return std::make_unique_for_overwrite<std::byte[]>(kChunk);  // would get what was given back
}

TEST(PickleArena, memory_is_kept_for_the_next) {
    const PickleMemory memory;
    std::optional<PickleArena> arena(many_bytes());
    const void* const first = arena->allocate(kChunk / 8);
    const void* const second = arena->allocate(kChunk / 8);
    arena.reset();
    const auto other = other_memory();
    arena.emplace(many_bytes());
    EXPECT_EQ(arena->allocate(kChunk / 8), first);
    EXPECT_EQ(arena->allocate(kChunk / 8), second);
}

TEST(PickleArena, memory_ends_with_its_owner) {
    std::optional<PickleArena> arena;
    {
        const PickleMemory outer;
        {
            const PickleMemory memory;
            arena.emplace(many_bytes());
            (void)arena->allocate(8);
            arena.reset();
            arena.emplace(many_bytes());
        }
        // The memory is gone, not so the arena that uses a part of it.
        std::memset(arena->allocate(kChunk / 8), 1, kChunk / 8);
        const void* const kept = arena->allocate(8);
        arena.reset();
        const auto other = other_memory();
        arena.emplace(many_bytes());
        (void)arena->allocate(kChunk / 8);
        EXPECT_EQ(arena->allocate(8), kept);
    }
    arena.reset();
}

std::vector<std::byte> pickle_of(std::size_t n_texts) {
    std::string text = "\x80\x02";
    for (std::size_t i = 0; i < n_texts; ++i) {
        text += "U\x03one0";  // pushed and popped
    }
    text += "U\x03two.";
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

TEST(PickleArena, bytes_of_the_largest_pickle_are_kept) {
    EXPECT_TRUE(PickleMemory::spare_bytes().empty()) << "none lives";
    const PickleMemory memory;
    EXPECT_TRUE(PickleMemory::spare_bytes().empty());
    auto bytes = pickle_of(100);
    const std::size_t size = bytes.size();
    const void* const place = bytes.data();
    {
        const Pickle large = Pickle::parse(std::move(bytes));
        EXPECT_TRUE(PickleMemory::spare_bytes().empty()) << "still in use";
        EXPECT_EQ(large.root().text(), "two");
    }
    (void)Pickle::parse(pickle_of(1));
    const auto spare = PickleMemory::spare_bytes();
    EXPECT_EQ(spare.data(), place);
    EXPECT_EQ(spare.size(), size);
    EXPECT_TRUE(PickleMemory::spare_bytes().empty()) << "given away";
}

}  // namespace
}  // namespace shardweld::formats

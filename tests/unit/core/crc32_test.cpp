#include "core/crc32.hpp"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld {
namespace {

std::vector<std::byte> noise(std::size_t size) {
    std::mt19937 random(7);
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(random());
    }
    return bytes;
}

/// Bit by bit, as ISO 3309 has it.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
    std::uint32_t sum = ~0U;
    for (const std::byte byte : bytes) {
        sum ^= static_cast<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? 0xEDB88320U : 0U);
        }
    }
    return ~sum;
}

std::uint32_t of_text(const std::string& text) {
    return crc32(std::as_bytes(std::span(text)));
}

TEST(Crc32, matches_the_standard) {
    EXPECT_EQ(of_text(""), 0U);
    EXPECT_EQ(of_text("123456789"), 0xCBF43926U);
    EXPECT_EQ(of_text("The quick brown fox jumps over the lazy dog"), 0x414FA339U);
    const auto bytes = noise(5000);
    for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 7) {
        ASSERT_EQ(crc32(std::span(bytes).first(size)), by_definition(std::span(bytes).first(size)))
            << size;
    }
}

TEST(Crc32, is_chained_and_joined_at_every_split) {
    const auto all = noise(300);
    const std::span<const std::byte> bytes(all);
    for (std::size_t split = 0; split <= bytes.size(); ++split) {
        const std::uint32_t first = crc32(bytes.first(split));
        const auto rest = bytes.subspan(split);
        ASSERT_EQ(crc32(rest, first), crc32(bytes)) << split;
        ASSERT_EQ(crc32_moved(first, rest.size()) ^ crc32(rest), crc32(bytes)) << split;
    }
}

TEST(Crc32, is_moved_over_many_bytes) {
    const auto zeros = std::vector<std::byte>(3'000'017);
    const std::uint32_t sum = 0x12345678U;
    EXPECT_EQ(crc32_moved(sum, zeros.size()) ^ crc32(zeros), crc32(zeros, sum));
    // Twice 2^40 bytes is 2^41 bytes, whatever the sum.
    const Bytes many = Bytes{1} << 40U;
    EXPECT_EQ(crc32_moved(crc32_moved(sum, many), many), crc32_moved(sum, 2 * many));
}

}  // namespace
}  // namespace shardweld

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "layout/copy.hpp"
#include "shardweld/error.hpp"

#include "brute_force.hpp"
#include "throws.hpp"

namespace shardweld::layout {
namespace {

using test::Random;
using Memory = std::vector<std::byte>;

constexpr std::size_t kSizes[] = {1, 2, 4, 8};

/// Bytes that differ from their neighbours and do not repeat with any small period.
Memory noise(std::size_t bytes, unsigned seed) {
    std::mt19937 engine(seed);
    Memory memory(bytes);
    std::generate(memory.begin(), memory.end(),
                  [&] { return static_cast<std::byte>(engine() & 0xFF); });
    return memory;
}

void run_by_element(const Copy& copy, std::size_t element_bytes, const Memory& src, Memory& dst) {
    for (const auto& [from, to] : test::relation_of(copy)) {
        std::memcpy(dst.data() + static_cast<std::size_t>(to) * element_bytes,
                    src.data() + static_cast<std::size_t>(from) * element_bytes, element_bytes);
    }
}

/// Runs over spans that end with the last address, and that begin at no particular alignment.
void expect_run_equals_brute_force(const Copy& copy, std::size_t element_bytes) {
    SCOPED_TRACE(to_text(copy) + " of " + std::to_string(element_bytes) + " bytes");
    const auto size_of = [&](Range span) {
        return static_cast<std::size_t>(span.lo + span.extent) * element_bytes;
    };
    const Memory src = noise(size_of(src_span(copy)) + 1, 1);
    Memory expected = noise(size_of(dst_span(copy)) + 1, 2);
    Memory got = expected;
    const Memory src_tail(src.begin() + 1, src.end());
    Memory expected_tail(expected.begin() + 1, expected.end());
    run_by_element(copy, element_bytes, src_tail, expected_tail);
    std::copy(expected_tail.begin(), expected_tail.end(), expected.begin() + 1);
    run(copy, element_bytes, std::span(src).subspan(1), std::span(got).subspan(1));
    ASSERT_TRUE(got == expected);
    EXPECT_EQ(count_different(copy, element_bytes, std::span(src).subspan(1),
                              std::span<const std::byte>(got).subspan(1)),
              0);
}

TEST(RunCopy, equals_brute_force_for_all_element_sizes) {
    Random random(10);
    for (int i = 0; i < 3000; ++i) {
        const Copy copy = random.copy(5, 6, random.chance(20));
        for (const std::size_t size : kSizes) {
            expect_run_equals_brute_force(copy, size);
        }
    }
}

TEST(RunCopy, copies_rows_of_every_short_length) {
    for (Index length = 1; length <= 600; length += length < 70 ? 1 : 13) {
        for (const std::size_t size : kSizes) {
            expect_run_equals_brute_force({3, 1, {{3, length + 2, length + 1}, {length, 1, 1}}},
                                          size);
        }
    }
    expect_run_equals_brute_force({0, 5, {{100'000, 1, 1}}}, 2);
    expect_run_equals_brute_force({7, 5, {}}, 4);
}

TEST(RunCopy, transposes_with_every_edge) {
    for (const Index rows : {2, 15, 16, 17, 63, 64, 65, 131}) {
        for (const Index columns : {2, 7, 8, 9, 31, 32, 33, 130}) {
            for (const std::size_t size : kSizes) {
                expect_run_equals_brute_force(
                    {2, 3, {{columns, 1, rows + 1}, {rows, columns + 3, 1}}}, size);
            }
        }
    }
}

TEST(RunCopy, transposes_batches_and_interleaved_targets) {
    for (const std::size_t size : kSizes) {
        // [e, f, h] -> [e, h, f, 2]: the destination's densest loop has stride 2.
        expect_run_equals_brute_force(
            {0, 1, {{3, 67 * 70, 2 * 67 * 70}, {70, 1, 2 * 67}, {67, 70, 2}}}, size);
        // Backwards: [h, f, 2] -> [f, h]; the source's densest loop has stride 2.
        expect_run_equals_brute_force({1, 0, {{67, 2, 70}, {70, 2 * 67, 1}}}, size);
        // [b, m, n] -> [n, b, m]: the transposed loops are not neighbours.
        expect_run_equals_brute_force({0, 0, {{67, 1, 5 * 33}, {5, 33 * 67, 33}, {33, 67, 1}}},
                                      size);
        // [m, n, p] -> [p, n, m].
        expect_run_equals_brute_force({0, 0, {{19, 1, 21 * 37}, {21, 19, 37}, {37, 19 * 21, 1}}},
                                      size);
    }
}

TEST(RunCopy, repeats_a_source_of_stride_zero) {
    for (const std::size_t size : kSizes) {
        expect_run_equals_brute_force({1, 0, {{50, 0, 40}, {40, 1, 1}}}, size);
        expect_run_equals_brute_force({1, 0, {{50, 1, 40}, {40, 0, 1}}}, size);
        expect_run_equals_brute_force({1, 0, {{2000, 0, 1}}}, size);
    }
}

TEST(RunCopy, refuses_addresses_outside_of_its_spans) {
    const Copy copy{2, 1, {{3, 10, 4}, {4, 1, 1}}};  // source [2, 26), destination [1, 13)
    const Memory src(26 * 2);
    Memory dst(13 * 2);
    run(copy, 2, src, dst);
    EXPECT_ERROR(run(copy, 2, std::span(src).first(51), dst), ErrorCode::internal,
                 "the copy 2 -> 1: 3x(10,4) 4x(1,1) reaches source elements [2, 26) of 25");
    EXPECT_ERROR(run(copy, 2, src, std::span(dst).first(25)), ErrorCode::internal,
                 "the copy 2 -> 1: 3x(10,4) 4x(1,1) reaches destination elements [1, 13) of 12");
    EXPECT_ERROR(run({-1, 0, {}}, 2, src, dst), ErrorCode::internal,
                 "the copy -1 -> 0 reaches source elements [-1, 0) of 26");
    EXPECT_ERROR(run({4, 0, {{6, -1, 1}}}, 2, src, dst), ErrorCode::internal,
                 "the copy 4 -> 0: 6x(-1,1) reaches source elements [-1, 5) of 26");
    EXPECT_ERROR(run(copy, 3, src, dst), ErrorCode::internal,
                 "elements of 3 bytes; a copy moves 1, 2, 4 or 8");
    EXPECT_ERROR(count_different(copy, 2, src, std::span(dst).first(25)), ErrorCode::internal,
                 "the copy 2 -> 1: 3x(10,4) 4x(1,1) reaches destination elements [1, 13) of 12");
}

TEST(RunCopy, moves_nothing_for_an_empty_loop) {
    Memory nothing;
    run({5, 5, {{0, 1, 1}, {7, 1, 1}}}, 4, nothing, nothing);
    EXPECT_EQ(count_different({5, 5, {{0, 1, 1}, {7, 1, 1}}}, 4, nothing, nothing), 0);
}

TEST(CountDifferent, counts_elements_once_each) {
    Random random(11);
    for (int i = 0; i < 1000; ++i) {
        const Copy copy = random.copy(4, 6, false);
        for (const std::size_t size : kSizes) {
            const auto size_of = [&](Range span) {
                return static_cast<std::size_t>(span.lo + span.extent) * size;
            };
            const Memory src = noise(size_of(src_span(copy)), 3);
            Memory dst(size_of(dst_span(copy)));
            run(copy, size, src, dst);
            Index expected = 0;
            for (const auto& [from, to] : test::relation_of(copy)) {
                if (random.chance(30)) {
                    const auto byte =
                        static_cast<std::size_t>(random.between(0, static_cast<Index>(size) - 1));
                    dst[static_cast<std::size_t>(to) * size + byte] ^= std::byte{0x10};
                    ++expected;
                }
            }
            ASSERT_EQ(count_different(copy, size, src, dst), expected) << to_text(copy);
        }
    }
}

TEST(CountDifferent, finds_one_element_in_a_long_run) {
    const Memory src = noise(30'000, 4);
    for (const std::size_t at : {0U, 4095U, 4096U, 8191U, 29'999U}) {
        Memory dst = src;
        dst[at] ^= std::byte{1};
        EXPECT_EQ(count_different({0, 0, {{15'000, 1, 1}}}, 2, src, dst), 1);
    }
}

}  // namespace
}  // namespace shardweld::layout

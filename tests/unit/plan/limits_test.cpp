// A rank's buffers never take more than it may, whatever a plan needs.
#include "plan/limits.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {
namespace {

constexpr Bytes kOneGiB = Bytes{1} << 30U;

/// All needs by turns: the bits of `number`.
LimitNeeds needs_of(unsigned number, int n_ranks) {
    const auto bit = [&](unsigned at) { return (number >> at & 1U) != 0; };
    LimitNeeds needs;
    needs.n_ranks = n_ranks;
    needs.is_lockstep = bit(0) && n_ranks > 1;
    needs.is_scattered = bit(1);
    needs.is_folding = bit(2);
    needs.is_ahead = bit(3);
    needs.has_replicas = bit(4);
    needs.has_digests = bit(5);
    needs.n_strips = bit(6) ? 2 : 0;
    needs.written_share = bit(7) ? 1 : 0;
    needs.staged_share = bit(8) ? 1 : 0;
    return needs;
}

TEST(Limits, stay_inside_the_memory_whatever_is_needed) {
    for (const Bytes memory :
         {kLeastMemory, kLeastMemory + 1, 3 * kMiB, 256 * kMiB, Bytes{64} << 30U}) {
        for (const int n_ranks : {1, 2, 3, 100'000}) {
            for (unsigned number = 0; number < 512; ++number) {
                const LimitNeeds needs = needs_of(number, n_ranks);
                const Limits limits = split_memory(memory, 0, needs);
                // With the smallest limits a block's end comes on top.
                const Bytes on_top = memory < 2 * limits.digests ? limits.digests : 0;
                ASSERT_LE(limits.total(), memory + on_top) << memory << " " << number;
                ASSERT_GE(limits.round, limits.step);
                ASSERT_GE(limits.step, 4096U) << memory << " " << n_ranks << " " << number;
                ASSERT_EQ(limits.send > 0, needs.is_lockstep);
                ASSERT_EQ(limits.receive > 0, needs.is_lockstep);
                ASSERT_EQ(limits.compare > 0, needs.has_replicas);
                ASSERT_EQ(limits.fold > 0, needs.is_folding);
                ASSERT_EQ(limits.ahead > 0, needs.is_ahead);
                ASSERT_EQ(limits.sums, needs.n_strips * limits.round);
            }
        }
    }
}

TEST(Limits, need_half_a_mebibyte) {
    EXPECT_NO_THROW((void)split_memory(kLeastMemory, 0, {}));
    EXPECT_EQ(test::error_text([] { (void)split_memory(kLeastMemory - 1, 0, {}); }).substr(0, 7),
              "usage: ");
}

TEST(Limits, are_no_larger_than_a_cache_but_for_what_is_read_scattered) {
    LimitNeeds needs;
    EXPECT_EQ(split_memory(kOneGiB, 0, needs).round, kMiB);
    needs.is_scattered = true;
    EXPECT_EQ(split_memory(kOneGiB, 0, needs).step, kMiB);
    EXPECT_EQ(split_memory(kOneGiB, 0, needs).round, 32 * kMiB);
}

TEST(Limits, hold_a_whole_strip_or_say_what_it_needs) {
    LimitNeeds needs;
    needs.strip = 5 * kMiB;
    const Limits limits = split_memory(64 * kMiB, 0, needs);
    EXPECT_GE(limits.step, needs.strip);
    EXPECT_LE(limits.total(), 64 * kMiB);
    EXPECT_NE(test::error_text([&] {
                  (void)split_memory(8 * kMiB, 0, needs);
              }).find("the rows of the widest quantised weight need buffers of 15.7 MB a rank"),
              std::string::npos);
}

TEST(Limits, of_messages_are_what_is_asked_for) {
    LimitNeeds needs = needs_of(1, 4);
    EXPECT_EQ(split_memory(kOneGiB, 1234, needs).message, 1234U);
    EXPECT_EQ(split_memory(kOneGiB, 0, needs).message, split_memory(kOneGiB, 0, needs).send);
}

TEST(NoteShares, counts_the_widest_of_what_is_stored_summed_and_written) {
    std::vector<Target> targets{test::flat_target("a", DType::f32, 10),
                                test::flat_target("b", DType::bf16, 10)};
    LimitNeeds needs;
    note_shares(targets, needs);
    EXPECT_EQ(needs.stored_share, 1);
    EXPECT_EQ(needs.written_share, 0);  // nothing is converted
    targets[0].dtype = DType::bf16;
    EXPECT_EQ(buffer_bytes(targets[0], 10), 40U);
    note_shares(targets, needs);
    EXPECT_EQ(needs.written_share, 1);  // of b's bytes all, of a's a half
    targets.pop_back();
    note_shares(targets, needs);
    EXPECT_EQ(needs.written_share, 0.5);
    targets[0].mix = Mix{MixKind::deltas, {{DType::bf16}, {DType::bf16}, {DType::f64}}};
    EXPECT_EQ(buffer_bytes(targets[0], 10), 80U);
    note_shares(targets, needs);
    EXPECT_EQ(needs.n_strips, 2U);
}

TEST(NoteShares, counts_codes_with_what_they_are_made_of_and_their_scales) {
    // 128 x 256 elements of f32 as bf16 and then codes of 4 bits, two in a byte.
    Target target = test::flat_target("w", DType::f32, 128 * 256);
    target.encode = Encode{{encoding_from("nvfp4a16").value(), 128, 256, 64}};
    target.dtype = DType::u8;
    target.shape = {128, 128};
    target.beside = {{"w_scale", DType::f8_e4m3, {128, 16}},
                     {"w_global", DType::f32, {1}, std::vector<std::byte>(4)}};
    ASSERT_EQ(target.n_made(), 2U);
    EXPECT_EQ(target.stored_width(), 8U);
    EXPECT_EQ(staged_width(target), 4U);
    EXPECT_EQ(buffer_bytes(target, 1), 8U);
    EXPECT_EQ(buffer_bytes(target, 1, 1), 1U);
    EXPECT_EQ(buffer_bytes(target, 1, 2), 4U);
    EXPECT_EQ(target.strip_elements(), 64 * 128);
    EXPECT_EQ(target.strip_elements(1), 64 * 16);
    EXPECT_EQ(target.strip_elements(2), 0);
    EXPECT_EQ(target.strip_bytes(), 64U * 144);
    EXPECT_EQ(strip_buffer(target), 64U * 128 * 8 + 64U * 16);
    LimitNeeds needs;
    note_shares({target}, needs);
    EXPECT_EQ(needs.strip, strip_buffer(target));
    EXPECT_EQ(needs.staged_share, 0.5);
    EXPECT_EQ(needs.written_share, 1);  // of the scales' bytes all
}

}  // namespace
}  // namespace shardweld::plan

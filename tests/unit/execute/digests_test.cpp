// Checksums depend on the tensors' bytes alone: not on the parts in which these come, nor on where
// ranks' runs meet.
#include "execute/digests.hpp"

#include <random>

#include <gtest/gtest.h>

#include "execute/run_options.hpp"
#include "support/small_targets.hpp"

namespace shardweld::execute {
namespace {

/// 2.5 MiB, 12 bytes and 1 MiB; in the output space the small one comes first.
class DigestsTest : public testing::Test {
  protected:
    DigestsTest() : the_plan(test::small_plan()), output(the_plan.space.begins.back()) {
        std::mt19937 random(7);
        for (std::byte& byte : output) {
            byte = static_cast<std::byte>(random());
        }
    }

    /// Puts a part of the output space in, in steps.
    void add(BlockDigests& digests, Bytes begin, Bytes end, Bytes step) const {
        for (Bytes at = begin; at < end; at += step) {
            const plan::OutputRange range{at, std::min(at + step, end)};
            for (const plan::Slice& slice : plan::slices_of(the_plan, range)) {
                digests.add(
                    slice, std::span(output).subspan(slice.output_begin, the_plan.bytes_of(slice)));
            }
        }
    }
    [[nodiscard]] Digest digest(Bytes begin, Bytes end) const {
        return digest_of(std::span(output).subspan(begin, end - begin));
    }
    /// "tensor/number" of blocks, those with other digests than their bytes marked.
    [[nodiscard]] std::string text_of(std::span<const DoneBlock> blocks) const {
        const BlockPlaces places(the_plan);
        std::string text;
        for (const DoneBlock& block : blocks) {
            const plan::OutputRange at = places.range(block);
            text += std::to_string(block.tensor) + "/" + std::to_string(block.number) +
                    (block.digest == digest(at.begin, at.end) ? " " : "! ");
        }
        return text;
    }

    plan::Plan the_plan;
    std::vector<std::byte> output;
};

TEST_F(DigestsTest, are_the_same_for_any_steps) {
    for (const Bytes step : {Bytes{4096 + 4}, kMiB - 4, kMiB, kMiB + 4, 9 * kMiB}) {
        BlockDigests digests(the_plan, true);
        add(digests, 0, output.size(), step / 4 * 4);
        EXPECT_EQ(text_of(digests.finished()), "1/0 0/0 0/1 0/2 2/0 ") << step;
        EXPECT_TRUE(digests.take_written().edges.empty());
        EXPECT_EQ(digests.buffer_bytes(), 0U);
    }
}

TEST_F(DigestsTest, of_blocks_that_ranks_share_are_known_in_parts) {
    const Bytes cut = 12 + kMiB + 1000;
    BlockDigests first(the_plan, true);
    add(first, 0, cut, 50'000);
    EXPECT_EQ(text_of(first.finished()), "1/0 0/0 ");
    const Written begun = first.take_written();
    ASSERT_EQ(begun.edges.size(), 1U);
    EXPECT_EQ(begun.edges[0].tensor, 0U);
    EXPECT_EQ(begun.edges[0].begin, kMiB / 2);
    EXPECT_EQ(begun.edges[0].end, kMiB / 2 + 500);
    EXPECT_EQ(begun.edges[0].digest, digest(12 + kMiB, cut));

    for (const bool keeps_ends : {true, false}) {
        BlockDigests second(the_plan, keeps_ends);
        add(second, cut, output.size(), 50'000);
        EXPECT_EQ(text_of(second.finished()), "0/2 2/0 ");
        EXPECT_EQ(second.buffer_bytes(), keeps_ends ? kMiB - 1000 : 0U);
        const Written ended = second.take_written();
        ASSERT_EQ(ended.edges.size(), 1U);
        EXPECT_EQ(ended.edges[0].begin, kMiB / 2 + 500);
        EXPECT_EQ(ended.edges[0].end, kMiB);
        EXPECT_EQ(ended.edges[0].digest, digest(cut, 12 + 2 * kMiB));
    }
}

TEST_F(DigestsTest, of_a_tensor_are_those_of_its_blocks_digests_whoever_made_them) {
    const auto comm = mpi::serial_comm();
    BlockDigests whole(the_plan, true);
    add(whole, 0, output.size(), kMiB);
    const std::vector<DoneBlock> blocks(whole.finished().begin(), whole.finished().end());
    const auto tensors = whole.gather(*comm);
    ASSERT_EQ(tensors.size(), 3U);
    std::vector<std::byte> of_blocks;
    for (const Bytes at : {Bytes{0}, kMiB, 2 * kMiB}) {
        const Digest one = digest(12 + at, 12 + std::min(at + kMiB, 5 * kMiB / 2));
        of_blocks.insert(of_blocks.end(), one.begin(), one.end());
    }
    EXPECT_EQ(tensors[0], hex(digest_of(of_blocks)));
    const Digest small = digest(0, 12);
    EXPECT_EQ(tensors[1], hex(digest_of(small)));

    BlockDigests resumed(the_plan, true);
    for (const std::size_t done : {3U, 0U, 4U}) {
        resumed.add_done(blocks[done]);
    }
    add(resumed, 12, 12 + 2 * kMiB, 1000 * 4);
    EXPECT_EQ(resumed.gather(*comm), tensors);
}

TEST_F(DigestsTest, of_all_change_with_each_of_names_types_shapes_and_bytes) {
    const std::vector<std::string> tensors{"aa", "bb", "cc"};
    const std::string root = root_digest(the_plan, tensors);
    EXPECT_NE(root_digest(the_plan, {"aa", "bb", "cd"}), root);
    EXPECT_NE(root_digest(the_plan, {"bb", "aa", "cc"}), root);
    plan::Plan other = the_plan;
    other.targets[1].name = "bb";
    EXPECT_NE(root_digest(other, tensors), root);
    other = the_plan;
    other.targets[0].dtype = DType::f16;
    EXPECT_NE(root_digest(other, tensors), root);
    other = the_plan;
    other.targets[1].shape = {3, 1};
    EXPECT_NE(root_digest(other, tensors), root);
    other = the_plan;
    other.cuts = {0, 1, 2};
    EXPECT_EQ(root_digest(other, tensors), root);
}

}  // namespace
}  // namespace shardweld::execute

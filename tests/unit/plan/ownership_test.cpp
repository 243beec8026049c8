#include "shardweld/plan/ownership.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace shardweld::plan {
namespace {

using outputs::OutputTensor;

TEST(RowsPerBlock, takes_whole_rows_up_to_one_mebibyte) {
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {1000, 4096}}), 128);
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {1000, 4095}}), 129);
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {8, 1 << 20}}), 1);
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {10}}), 10);
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {}}), 1);
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {0, 3}}), 1);
    EXPECT_EQ(rows_per_block({"a", DType::bf16, {3, 0}}), 3);
}

std::vector<OutputTensor> decoder(int n_layers) {
    std::vector<OutputTensor> tensors{{"a.embed", DType::bf16, {32000, 4096}}};
    for (int layer = 0; layer < n_layers; ++layer) {
        const std::string prefix = "layers." + std::to_string(layer) + ".";
        tensors.push_back({prefix + "down", DType::bf16, {4096, 11008}});
        tensors.push_back({prefix + "norm", DType::f32, {4096}});
        tensors.push_back({prefix + "up", DType::bf16, {11008, 4096}});
    }
    return tensors;
}

TEST(CutRuns, balances_within_five_percent_and_cuts_at_blocks) {
    const auto tensors = decoder(40);
    const auto placement = outputs::place_safetensors(tensors, 5'000'000'000);
    const OutputLine line = line_of(tensors, placement);
    for (const int n_ranks : {1, 2, 3, 5, 8, 64, 512}) {
        const auto cuts = cut_runs(tensors, line, n_ranks);
        ASSERT_EQ(cuts.size(), static_cast<std::size_t>(n_ranks) + 1);
        EXPECT_EQ(cuts.front(), 0U);
        EXPECT_EQ(cuts.back(), placement.tensor_bytes);
        Bytes busiest = 0;
        for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
            ASSERT_LE(cuts[r], cuts[r + 1]);
            busiest = std::max(busiest, cuts[r + 1] - cuts[r]);
            const auto at = static_cast<std::size_t>(
                                std::upper_bound(line.begins.begin(), line.begins.end(), cuts[r]) -
                                line.begins.begin()) -
                            1;
            if (at < line.order.size()) {
                const OutputTensor& tensor = tensors[line.order[at]];
                const Bytes row = tensor.bytes() / static_cast<Bytes>(tensor.shape[0]);
                EXPECT_EQ((cuts[r] - line.begins[at]) %
                              (row * static_cast<Bytes>(rows_per_block(tensor))),
                          0U);
            }
        }
        EXPECT_LE(static_cast<double>(busiest),
                  1.05 * static_cast<double>(placement.tensor_bytes) / n_ranks)
            << n_ranks;
    }
}

TEST(CutRuns, gives_nothing_to_ranks_beyond_the_blocks) {
    const std::vector<OutputTensor> tensors{{"a", DType::bf16, {3}}};
    const auto line = line_of(tensors, outputs::place_safetensors(tensors, 100));
    const auto cuts = cut_runs(tensors, line, 4);
    EXPECT_TRUE(
        std::all_of(cuts.begin(), cuts.end(), [](Bytes cut) { return cut == 0 || cut == 6; }));
    EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
}

}  // namespace
}  // namespace shardweld::plan

#include "plan/ownership.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "core/shared_text.hpp"
#include "outputs/format.hpp"

namespace shardweld::plan {
namespace {

using outputs::OutputTensor;

std::vector<OutputTensor> decoder(int n_layers) {
    std::vector<OutputTensor> tensors{{"a.embed", DType::bf16, {32000, 4096}}};
    for (int layer = 0; layer < n_layers; ++layer) {
        const std::string prefix = "layers." + std::to_string(layer) + ".";
        tensors.push_back({SharedText(prefix + "down"), DType::bf16, {4096, 11008}});
        tensors.push_back({SharedText(prefix + "norm"), DType::f32, {4096}});
        tensors.push_back({SharedText(prefix + "up"), DType::bf16, {11008, 4096}});
    }
    return tensors;
}

/// Odd sizes, as of models with small norms and biases: hardly any tensor begins at a page.
std::vector<OutputTensor> odd_decoder(int n_layers) {
    std::vector<OutputTensor> tensors{{"a.embed", DType::bf16, {32003, 898}}};
    for (int layer = 0; layer < n_layers; ++layer) {
        const std::string prefix = "layers." + std::to_string(layer) + ".";
        tensors.push_back({SharedText(prefix + "bias"), DType::f32, {129}});
        tensors.push_back({SharedText(prefix + "down"), DType::bf16, {898, 4867}});
        tensors.push_back({SharedText(prefix + "scale"), DType::u8, {31}});
        tensors.push_back({SharedText(prefix + "up"), DType::bf16, {4867, 898}});
    }
    return tensors;
}

struct Laid {
    std::vector<OutputTensor> tensors;
    outputs::Placement placement;
    OutputSpace space;

    Laid(std::vector<OutputTensor> list, Bytes file_size)
        : tensors(std::move(list)),
          placement(outputs::default_format().place(tensors, file_size)),
          space(output_space_of(tensors, placement)) {}

    [[nodiscard]] std::size_t at(Bytes position) const {
        return static_cast<std::size_t>(
                   std::upper_bound(space.begins.begin(), space.begins.end(), position) -
                   space.begins.begin()) -
               1;
    }
    /// The offset of a position before the end of the output space in its file.
    [[nodiscard]] Bytes offset(Bytes position) const {
        return placement.slots[space.order[at(position)]].offset + position -
               space.begins[at(position)];
    }
    void expect_whole_elements(Bytes position) const {
        if (position < space.begins.back()) {
            const std::size_t i = at(position);
            EXPECT_EQ((position - space.begins[i]) % size_of(tensors[space.order[i]].dtype), 0U);
        }
    }
};

void expect_balance(const Laid& laid, const std::vector<Bytes>& cuts) {
    ASSERT_EQ(cuts.front(), 0U);
    ASSERT_EQ(cuts.back(), laid.placement.tensor_bytes);
    Bytes busiest = 0;
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
        ASSERT_LE(cuts[r], cuts[r + 1]);
        busiest = std::max(busiest, cuts[r + 1] - cuts[r]);
        laid.expect_whole_elements(cuts[r]);
    }
    EXPECT_LE(static_cast<double>(busiest),
              1.05 * static_cast<double>(cuts.back()) / static_cast<double>(cuts.size() - 1));
}

TEST(CutRuns, balances_within_five_percent_and_cuts_at_pages) {
    const std::vector<Laid> all = {{decoder(40), 5'000'000'000},
                                   {odd_decoder(24), 5'000'000'000},
                                   {odd_decoder(24), 30'000'000}};
    for (const Laid& laid : all) {
        for (const int n_ranks : {1, 2, 3, 5, 8, 64, 512}) {
            const auto cuts = cut_runs(laid.space, laid.placement, n_ranks);
            ASSERT_EQ(cuts.size(), static_cast<std::size_t>(n_ranks) + 1);
            expect_balance(laid, cuts);
            const bool is_large =
                laid.placement.tensor_bytes / static_cast<Bytes>(n_ranks) >= 64 * kPageBytes;
            for (const Bytes cut : cuts) {
                EXPECT_TRUE(!is_large || cut == cuts.back() || laid.offset(cut) % kPageBytes == 0)
                    << cut << " of " << n_ranks;
            }
        }
    }
}

TEST(CutRuns, cuts_at_stripes_where_shares_are_large) {
    const Laid laid(odd_decoder(24), 300'000'000);
    for (const Bytes stripe : {Bytes{65536}, Bytes{3} << 16U, Bytes{1} << 20U, Bytes{1} << 26U}) {
        for (const int n_ranks : {2, 5, 64}) {
            const auto cuts = cut_runs(laid.space, laid.placement, n_ranks, stripe);
            expect_balance(laid, cuts);
            const Bytes share = laid.placement.tensor_bytes / static_cast<Bytes>(n_ranks);
            const Bytes unit = stripe <= share / 64 ? stripe : kPageBytes;
            const auto& begins = laid.space.begins;
            for (const Bytes cut : cuts) {
                const bool begins_file = cut < cuts.back() && laid.at(cut) == 0;
                EXPECT_TRUE(cut == cuts.back() || begins_file || laid.offset(cut) % unit == 0 ||
                            laid.offset(cut) == laid.placement.files[0].header.size())
                    << cut << " of " << n_ranks << ", stripes of " << stripe;
            }
            EXPECT_EQ(begins.front(), 0U);
        }
    }
}

TEST(CutRuns, prefers_the_begin_of_a_file) {
    // Four files for four ranks, of sizes that differ by less than a share's 64th.
    const Laid laid({{"a", DType::u8, {1'000'000}},
                     {"b", DType::u8, {1'010'000}},
                     {"c", DType::u8, {995'000}},
                     {"d", DType::u8, {1'001'000}}},
                    1'010'000);
    EXPECT_EQ(cut_runs(laid.space, laid.placement, 4),
              (std::vector<Bytes>{0, 1'000'000, 2'010'000, 3'005'000, 4'006'000}));
}

TEST(CutRuns, gives_whole_elements_to_more_ranks_than_there_are) {
    for (const int n_ranks : {4, 7}) {
        const Laid laid({{"a", DType::bf16, {3}}, {"b", DType::f32, {1}}}, 100);
        const auto cuts = cut_runs(laid.space, laid.placement, n_ranks);
        EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
        EXPECT_EQ(cuts.back(), 10U);
        for (const Bytes cut : cuts) {
            laid.expect_whole_elements(cut);
        }
    }
}

}  // namespace
}  // namespace shardweld::plan

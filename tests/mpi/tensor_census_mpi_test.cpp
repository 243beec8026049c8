// A census of tensors that several ranks own parts of, against what is known of them.
#include <cstring>

#include "execute/listeners/tensor_census.hpp"
#include "plan/plan.hpp"

#include "world.hpp"

namespace shardweld {
namespace {

constexpr Index kSide = 1200;
constexpr std::uint16_t kOne = 0x3F80;
constexpr std::uint16_t kNan = 0x7FC0;

/// All zeros, all ones, ones and twos, three NaNs, nothing to tell, integers.
std::uint16_t element(std::uint32_t target, Index i) {
    switch (target) {
        case 0:
            return i % 2 == 0 ? 0 : 0x8000;
        case 1:
            return kOne;
        case 2:
            return i < kSide * kSide / 2 ? kOne : 0x4000;
        case 3:
            return i == 0 || i == kSide * kSide / 2 || i == kSide * kSide - 1
                       ? kNan
                       : static_cast<std::uint16_t>(i % 0x7F80);
        default:
            return static_cast<std::uint16_t>(i % 3);
    }
}

plan::Plan plan_for(int n_ranks) {
    std::vector<plan::Target> targets;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
        plan::Target target;
        target.name = name;
        target.stored = target.dtype = *name == 'f' ? DType::i16 : DType::bf16;
        target.shape = {kSide, kSide};
        target.operands = {{0, 0, {0, 0, {{kSide * kSide, 1, 1}}}}};
        targets.push_back(target);
    }
    return plan::make_plan(targets, {{"file", 1U << 30U}}, plan::Visibility::everywhere(n_ranks, 1),
                           {});
}

TEST(TensorCensus, is_the_same_at_any_number_of_ranks_and_in_any_order) {
    mpi::Comm& comm = mpi::world();
    const plan::Plan plan = plan_for(comm.size());
    const auto own = mpi::index_of(comm.rank());
    for (const Bytes step : {Bytes{1} << 30U, Bytes{100'000}}) {
        std::vector<plan::Slice> slices;
        for (Bytes at = plan.cuts[own]; at < plan.cuts[own + 1]; at += step) {
            const auto some = plan::slices_of(plan, {at, std::min(at + step, plan.cuts[own + 1])});
            slices.insert(slices.end(), some.begin(), some.end());
        }
        for (const bool is_backwards : {false, true}) {
            execute::TensorCensus census(plan);
            for (std::size_t i = 0; i < slices.size(); ++i) {
                const plan::Slice& slice = is_backwards ? slices[slices.size() - 1 - i] : slices[i];
                std::vector<std::uint16_t> values;
                for (Index k = slice.begin; k < slice.end; ++k) {
                    values.push_back(element(slice.tensor, k));
                }
                census.add(slice, std::as_bytes(std::span(values)));
            }
            const auto found = census.gather(comm);
            ASSERT_COLLECTIVE(found.size() == 3);
            ASSERT_COLLECTIVE(found.contains(0) && found.contains(1) && found.contains(3));
            EXPECT_FALSE(found.at(0).has_nonzero);
            EXPECT_EQ(found.at(1).n_elements, kSide * kSide);
            EXPECT_TRUE(found.at(1).is_constant && found.at(1).has_nonzero);
            EXPECT_EQ(found.at(3).n_elements, kSide * kSide);
            EXPECT_EQ(found.at(3).n_nan, 3);
            EXPECT_EQ(found.at(3).n_inf, 0);
        }
    }
}

}  // namespace
}  // namespace shardweld

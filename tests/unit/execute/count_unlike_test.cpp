#include "execute/count_unlike.hpp"

#include <array>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld::execute {
namespace {

/// Of masters and weights of bf16 that lie in the opposite order.
Index count(const std::vector<float>& masters, const std::vector<std::uint16_t>& weights) {
    const auto n = static_cast<Index>(masters.size());
    layout::Copy copy;
    copy.dst_offset = n - 1;
    copy.loops = {{n, 1, -1}};
    return count_unlike(copy, {DType::f32, DType::bf16}, std::as_bytes(std::span(masters)),
                        std::as_bytes(std::span(weights)));
}

TEST(CountUnlike, a_master_rounds_to_its_weight) {
    EXPECT_EQ(count({1, 2, 3.0078125F}, {0x4040, 0x4000, 0x3F80}), 0);
    EXPECT_EQ(count({1, 2, 3}, {0x4040, 0x4001, 0x3F81}), 2);
}

// torch 2.15 casts a NaN to other bits in a dense tensor than in a strided one.
TEST(CountUnlike, a_nan_rounds_to_any_nan_and_to_nothing_else) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(count({kNan, -kNan, kNan, 1}, {0x3F80, 0xFFFF, 0x7FC0, 0x7F81}), 0);
    EXPECT_EQ(count({kNan, 1, kNan}, {0x7F80, 0xFFFF, 0xFFFF}), 2);
}

TEST(CountUnlike, copies_may_hold_other_nans_and_nothing_else) {
    const auto of_type = [](DType type, const std::vector<std::uint16_t>& a,
                            const std::vector<std::uint16_t>& b) {
        layout::Copy copy;
        copy.loops = {{static_cast<Index>(a.size()), 1, 1}};
        return count_unlike(copy, {type, type}, std::as_bytes(std::span(a)),
                            std::as_bytes(std::span(b)));
    };
    const std::vector<std::uint16_t> one{0x7FC0, 0x3F80, 0xFFFF, 0x0000};
    EXPECT_EQ(of_type(DType::bf16, one, {0xFFFF, 0x3F80, 0x7F81, 0x0000}), 0);
    EXPECT_EQ(of_type(DType::bf16, one, {0x7F80, 0x3F81, 0x7FC0, 0x8000}), 3);
    EXPECT_EQ(of_type(DType::u16, one, {0xFFFF, 0x3F80, 0x7F81, 0x0000}), 2);
}

}  // namespace
}  // namespace shardweld::execute

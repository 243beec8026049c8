// Bytes that are missing, written twice or more than there are must not be published.
#include "execute/tally.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/flat_target.hpp"

namespace shardweld::execute {
namespace {

/// Tensors of 20, 40 and 60 bytes; in the output space in the order of their names.
plan::Plan tallied_plan() {
    return plan::make_plan(
        {test::flat_target("a", DType::f32, 5), test::flat_target("b", DType::f32, 10),
         test::flat_target("c", DType::f32, 15)},
        {{"file", 1 << 20}}, plan::Visibility::everywhere(1, 1), {});
}

std::string refusal(const Tally& all, const std::vector<plan::OutputRange>& reused = {}) {
    return test::error_text([&] { require_each_byte_once(tallied_plan(), all, reused); });
}

TEST(Tally, accepts_each_byte_once) {
    EXPECT_NO_THROW(require_each_byte_once(tallied_plan(), {120, 0, {{0, 120}}}, {}));
    EXPECT_NO_THROW(
        require_each_byte_once(tallied_plan(), {120, 0, {{60, 120}, {0, 7}, {7, 60}}}, {}));
    EXPECT_NO_THROW(
        require_each_byte_once(tallied_plan(), {70, 50, {{70, 120}, {0, 20}}}, {{20, 70}}));
    EXPECT_NO_THROW(require_each_byte_once(tallied_plan(), {0, 120, {}}, {{0, 120}}));
    EXPECT_NO_THROW(
        require_each_byte_once(tallied_plan(), {120, 0, {{0, 60}, {60, 60}, {60, 120}}}, {}));
}

TEST(Tally, names_the_tensor_whose_bytes_are_missing) {
    EXPECT_NE(refusal({0, 0, {}}).find("internal: bytes of a were not written"), std::string::npos);
    EXPECT_NE(refusal({119, 0, {{0, 119}}}).find("bytes of c were not written"), std::string::npos);
    EXPECT_NE(refusal({118, 0, {{0, 22}, {24, 120}}}).find("bytes of b were not written"),
              std::string::npos);
    EXPECT_NE(refusal({50, 60, {{70, 120}}}, {{0, 60}}).find("bytes of c were not written"),
              std::string::npos);
}

TEST(Tally, names_the_tensor_whose_bytes_were_written_twice) {
    EXPECT_NE(refusal({121, 0, {{0, 31}, {30, 120}}}).find("bytes of b were written twice"),
              std::string::npos);
    EXPECT_NE(refusal({120, 20, {{0, 120}}}, {{0, 20}}).find("bytes of a were written twice"),
              std::string::npos);
}

TEST(Tally, counts_what_was_given_to_the_system) {
    EXPECT_NE(refusal({100, 0, {{0, 120}}}).find("100 bytes were written and 0 taken over"),
              std::string::npos);
    EXPECT_NE(refusal({70, 60, {{50, 120}}}, {{0, 50}}).find("of 120 in all"), std::string::npos);
}

}  // namespace
}  // namespace shardweld::execute

#include "adapters/stored_pieces.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld::adapters {
namespace {

std::string pieces_of(std::vector<Index> shape, std::vector<layout::Copy> copies) {
    plan::Target target;
    target.name = "w";
    target.shape = std::move(shape);
    for (layout::Copy& copy : copies) {
        target.operands.push_back({3, 100, std::move(copy)});
    }
    std::string text;
    for (const catalogue::Piece& piece : stored_as(target, "x").pieces) {
        text += (text.empty() ? "" : "; ") + layout::to_text(piece.patch);
        EXPECT_EQ(piece.file, 3U);
        EXPECT_EQ(piece.base, 100U);
    }
    return text;
}

TEST(StoredPieces, are_where_a_targets_elements_are) {
    // A whole tensor in one run.
    EXPECT_EQ(pieces_of({4, 6}, {{7, 0, {{24, 1, 1}}}}), "7 + [0,4)*6 [0,6)*1");
    // Its second half of rows, and a scalar.
    EXPECT_EQ(pieces_of({4, 6}, {{0, 12, {{12, 1, 1}}}}), "0 + [2,4)*6 [0,6)*1");
    EXPECT_EQ(pieces_of({}, {{5, 0, {}}}), "5");
    // Columns 2 to 5, and a transpose.
    EXPECT_EQ(pieces_of({4, 6}, {{0, 2, {{4, 8, 6}, {3, 1, 1}}}}), "0 + [0,4)*8 [2,5)*1");
    EXPECT_EQ(pieces_of({4, 6}, {{0, 0, {{4, 1, 6}, {6, 4, 1}}}}), "0 + [0,4)*1 [0,6)*4");
    // Heads of two rows, 18 elements apart: one piece for each.
    EXPECT_EQ(pieces_of({4, 6}, {{1, 0, {{2, 18, 12}, {12, 1, 1}}}}),
              "1 + [0,2)*6 [0,6)*1; 19 + [2,4)*6 [0,6)*1");
}

TEST(StoredPieces, keep_replicas_and_refuse_what_is_no_box) {
    plan::Target target;
    target.name = "w";
    target.shape = {4, 6};
    target.operands.push_back({0, 0, {0, 0, {{24, 1, 1}}}});
    target.replicas.push_back({1, 8, {0, 0, {{24, 1, 1}}}});
    const auto tensor = stored_as(target, "x");
    ASSERT_EQ(tensor.pieces.size(), 2U);
    EXPECT_EQ(tensor.pieces[1].replica, 1U);
    EXPECT_EQ(tensor.pieces[1].storage_bytes, 96U);
    target.add = 1;
    EXPECT_NE(test::error_text([&] { stored_as(target, "x"); }).find("is stored less 1"),
              std::string::npos);
    target.add = 0;
    // Beyond a row; within two rows; every second row's second half.
    for (const layout::Copy& copy :
         {layout::Copy{0, 0, {{9, 1, 1}}}, layout::Copy{0, 4, {{4, 1, 1}}},
          layout::Copy{0, 3, {{2, 6, 12}, {6, 1, 1}}}}) {
        target.operands = {{0, 0, copy}};
        EXPECT_NE(test::error_text([&] { stored_as(target, "x"); }).find("no boxes"),
                  std::string::npos);
    }
}

}  // namespace
}  // namespace shardweld::adapters

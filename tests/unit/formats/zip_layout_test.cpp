#include <gtest/gtest.h>

#include "formats/containers/zip.hpp"

namespace shardweld::formats {
namespace {

// Offsets of torch 2.15's PyTorchFileWriter, seen while it wrote records named archive/data/0 and
// on.
TEST(TorchDataOffset, is_where_torch_puts_small_records) {
    EXPECT_EQ(torch_data_offset(0, 14, 3, 83), 64U);
}

TEST(TorchDataOffset, is_where_torch_puts_records_with_zip64_fields) {
    EXPECT_EQ(torch_data_offset(83, 14, 4'400'000'000, 4'400'000'216), 192U);
    EXPECT_EQ(torch_data_offset(4'400'000'216, 14, 14, 4'400'000'358), 4'400'000'320U);
    EXPECT_EQ(torch_data_offset(4'400'000'862, 30, 40, 4'400'001'024), 4'400'000'960U);
}

TEST(TorchDataOffset, is_not_told_for_other_layouts) {
    EXPECT_EQ(torch_data_offset(0, 14, 3, 84), std::nullopt);
    EXPECT_EQ(torch_data_offset(0, 14, 3, 91), std::nullopt);  // a descriptor of 64 bits
    EXPECT_EQ(torch_data_offset(0, 14, 4, 83), std::nullopt);
    EXPECT_EQ(torch_data_offset(0, 14, 3, 40), std::nullopt);
    EXPECT_EQ(torch_data_offset(83, 14, 3, 0), std::nullopt);
    EXPECT_EQ(torch_data_offset(0, 14, ~Bytes{0}, 83), std::nullopt);
}

}  // namespace
}  // namespace shardweld::formats

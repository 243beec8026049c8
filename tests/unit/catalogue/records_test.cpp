#include "catalogue/records.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"

namespace shardweld::catalogue {
namespace {

Piece piece(std::uint32_t file, Bytes base, Bytes bytes, std::uint32_t crc32) {
    Piece made;
    made.file = file;
    made.base = base;
    made.storage_bytes = bytes;
    made.crc32 = crc32;
    return made;
}

TEST(Records, are_each_storage_once_in_file_order) {
    Catalogue catalogue;
    catalogue.tensors = {{"a", DType::bf16, {}, {piece(1, 64, 10, 5), piece(0, 128, 10, 6)}},
                         {"view", DType::bf16, {}, {piece(1, 64, 10, 5), piece(0, 0, 0, 7)}}};
    catalogue.shards = {{"s", DType::bf16, {}, {}, piece(0, 64, 20, 0)}};
    const Records records = records_of(catalogue);
    ASSERT_EQ(records.all.size(), 3U);
    EXPECT_EQ(records.all[0].bytes, 20U);
    EXPECT_EQ(records.tensors[records.all[0].tensor], "s");
    EXPECT_EQ(records.all[1].crc32, 6U);
    EXPECT_EQ(records.tensors[records.all[2].tensor], "a");
    EXPECT_EQ(records.at(0, 83), 0U);
    EXPECT_EQ(records.at(0, 84), std::nullopt);
    EXPECT_EQ(records.at(1, 64), 2U);
    EXPECT_EQ(records.at(1, 63), std::nullopt);
    EXPECT_EQ(records.at(2, 0), std::nullopt);
    EXPECT_EQ(records.first_behind(0, 84), 1U);
}

TEST(Records, that_overlap_state_nothing) {
    Catalogue catalogue;
    catalogue.tensors = {
        {"a", DType::bf16, {}, {piece(0, 0, 10, 5), piece(0, 5, 10, 6), piece(0, 15, 5, 7)}}};
    const Records records = records_of(catalogue);
    ASSERT_EQ(records.all.size(), 2U);
    EXPECT_EQ(records.all[0].crc32, 0U);
    EXPECT_EQ(records.all[0].bytes, 15U);
    EXPECT_EQ(records.all[1].crc32, 7U);
}

}  // namespace
}  // namespace shardweld::catalogue

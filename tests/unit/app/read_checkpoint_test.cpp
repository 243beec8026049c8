#include <gtest/gtest.h>

#include "app/survey/checkpoint.hpp"
#include "catalogue/catalogue.hpp"

namespace shardweld::app {
namespace {

catalogue::Catalogue two_files() {
    catalogue::Catalogue catalogue;
    catalogue.files = {{"a.pt", 100}, {"b.pt", 100}};
    for (std::uint32_t file = 0; file < 2; ++file) {
        catalogue::Piece piece;
        piece.file = file;
        piece.storage_bytes = 8;
        piece.patch = layout::dense_shape(std::vector<Index>{2});
        piece.crc32 = 7 + file;
        catalogue::Tensor tensor;
        tensor.name = "t" + std::to_string(file);
        tensor.shape = {2};
        tensor.pieces = {piece};
        catalogue.tensors.push_back(tensor);
    }
    return catalogue;
}

TEST(InputDigests, tell_which_file_says_something_else) {
    const std::vector<InputDigest> before = digests_of(two_files());
    ASSERT_EQ(before.size(), 2U);
    EXPECT_NE(before[0].value, before[1].value);
    EXPECT_TRUE(before[0].has_all_checksums);
    const auto changed = [&](const auto& change) {
        catalogue::Catalogue catalogue = two_files();
        change(catalogue.tensors[1]);
        const std::vector<InputDigest> after = digests_of(catalogue);
        EXPECT_EQ(after[0], before[0]);
        return after[1].value != before[1].value;
    };
    EXPECT_FALSE(changed([](catalogue::Tensor&) {}));
    EXPECT_TRUE(changed([](catalogue::Tensor& tensor) { tensor.pieces[0].crc32 = 9; }));
    EXPECT_TRUE(changed([](catalogue::Tensor& tensor) { tensor.pieces[0].base = 64; }));
    EXPECT_TRUE(changed([](catalogue::Tensor& tensor) { tensor.name = "u"; }));
    EXPECT_TRUE(changed([](catalogue::Tensor& tensor) { tensor.dtype = DType::bf16; }));
    EXPECT_TRUE(changed([](catalogue::Tensor& tensor) { tensor.shape = {1, 2}; }));
}

TEST(InputDigests, know_where_a_checksum_is_missing) {
    catalogue::Catalogue catalogue = two_files();
    catalogue.tensors[1].pieces[0].crc32 = 0;
    EXPECT_TRUE(digests_of(catalogue)[0].has_all_checksums);
    EXPECT_FALSE(digests_of(catalogue)[1].has_all_checksums);
}

}  // namespace
}  // namespace shardweld::app

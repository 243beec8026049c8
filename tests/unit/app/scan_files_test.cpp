#include "../../../src/app/survey/scan_files.hpp"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

/// A finished model of so many files, each with one tensor of one element.
class ManyFiles : public testing::Test {
  protected:
    static constexpr std::size_t kCount = 200;

    void SetUp() override {
        location_.format = "huggingface";
        location_.directory = directory_.path();
        for (std::size_t i = 0; i < kCount; ++i) {
            location_.shard_files.push_back("model-" + std::to_string(i) + ".safetensors");
            put(i, R"({"t)" + std::to_string(i) +
                       R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})");
        }
    }

    void put(std::size_t i, const std::string& header) {
        const std::uint64_t size = header.size();
        std::string bytes(sizeof(size), '\0');
        std::memcpy(bytes.data(), &size, sizeof(size));
        directory_.put(location_.shard_files[i], bytes + header + "1234");
    }

    std::vector<catalogue::Catalogue> scan(bool has_spare_core) {
        return scan_files(location_, location_.shard_files, has_spare_core,
                          [&](Index n_begun) { begun_.push_back(n_begun); });
    }

    test::TemporaryDirectory directory_;
    formats::Location location_;
    std::vector<Index> begun_;
};

TEST_F(ManyFiles, are_in_order_whoever_read_them) {
    for (const bool has_spare_core : {false, true}) {
        begun_.clear();
        const auto scans = scan(has_spare_core);
        ASSERT_EQ(scans.size(), kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
            ASSERT_EQ(scans[i].tensors.size(), 1U);
            EXPECT_EQ(scans[i].tensors.front().name, "t" + std::to_string(i));
        }
        EXPECT_TRUE(std::is_sorted(begun_.begin(), begun_.end()));
        EXPECT_LE(begun_.size(), kCount);
        EXPECT_TRUE(has_spare_core || begun_.size() == kCount);
    }
}

TEST_F(ManyFiles, fail_with_the_first_that_is_damaged) {
    for (const std::size_t i : {150U, 70U, 71U, 199U}) {
        put(i, "{");
    }
    for (int i = 0; i < 20; ++i) {
        for (const bool has_spare_core : {false, true}) {
            EXPECT_NE(
                test::error_text([&] { (void)scan(has_spare_core); }).find("model-70.safetensors"),
                std::string::npos);
        }
    }
}

}  // namespace
}  // namespace shardweld::app

#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "outputs/format.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {
namespace {

using nlohmann::json;

json header_json(const PlacedFile& file) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.header.data(), sizeof length);
    EXPECT_EQ(length + sizeof length, file.header.size());
    return json::parse(file.header.substr(sizeof length));
}

TEST(PlaceSafetensors, orders_by_element_size_then_natural_name) {
    const std::vector<OutputTensor> tensors = {{"layers.9.w", DType::bf16, {2, 3}},
                                               {"layers.10.b", DType::f32, {5}},
                                               {"layers.10.w", DType::bf16, {4}}};
    const Placement placement = safetensors_format().place(tensors, 5'000'000'000);
    ASSERT_EQ(placement.files.size(), 1U);
    const PlacedFile& file = placement.files.front();
    EXPECT_EQ(file.name, "model.safetensors");
    EXPECT_EQ(file.header.size() % 4096, 0U);
    EXPECT_EQ(file.tensors, (std::vector<std::uint32_t>{1, 0, 2}));
    EXPECT_EQ(file.size, file.header.size() + 20 + 12 + 8);
    EXPECT_EQ(placement.slots[1].offset, file.header.size());
    EXPECT_EQ(placement.slots[0].offset, file.header.size() + 20);
    EXPECT_TRUE(placement.side_files.empty());
    EXPECT_EQ(header_json(file), json::parse(R"({"__metadata__": {"format": "pt"},
        "layers.10.b": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]},
        "layers.9.w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [20, 32]},
        "layers.10.w": {"dtype": "BF16", "shape": [4], "data_offsets": [32, 40]}})"));
}

TEST(PlaceSafetensors, packs_greedily_and_leaves_a_large_tensor_alone) {
    const std::vector<OutputTensor> tensors = {{"a", DType::u8, {60}},
                                               {"b", DType::u8, {40}},
                                               {"c", DType::u8, {1}},
                                               {"d", DType::u8, {500}},
                                               {"e", DType::u8, {1}}};
    const Placement placement = safetensors_format().place(tensors, 100);
    ASSERT_EQ(placement.files.size(), 4U);
    EXPECT_EQ(placement.files[0].tensors, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_EQ(placement.files[1].tensors, (std::vector<std::uint32_t>{2}));
    EXPECT_EQ(placement.files[2].tensors, (std::vector<std::uint32_t>{3}));
    EXPECT_EQ(placement.files[3].name, "model-00004-of-00004.safetensors");
    ASSERT_EQ(placement.side_files.size(), 1U);
    EXPECT_EQ(placement.side_files[0].name, "model.safetensors.index.json");
    const json index = json::parse(placement.side_files[0].text);
    EXPECT_EQ(index["metadata"]["total_size"], 602);
    EXPECT_EQ(index["weight_map"]["d"], "model-00003-of-00004.safetensors");
    EXPECT_EQ(index["weight_map"].size(), 5U);
}

TEST(PlaceSafetensors, escapes_names_and_keeps_scalars_and_empty_tensors) {
    const std::vector<OutputTensor> tensors = {{"a\"b", DType::f32, {}},
                                               {"empty", DType::f32, {0, 4}}};
    const Placement placement = safetensors_format().place(tensors, 100);
    const json header = header_json(placement.files.front());
    EXPECT_EQ(header["a\"b"]["data_offsets"], json::parse("[0, 4]"));
    EXPECT_EQ(header["empty"]["data_offsets"], json::parse("[4, 4]"));
}

TEST(PlaceSafetensors, refuses_names_that_the_header_cannot_hold) {
    for (const char* name : {"__metadata__", "a\xed\xa0\x80", "\xff"}) {
        EXPECT_THROW(safetensors_format().place({{name, DType::f32, {1}}}, 100), Error) << name;
    }
    EXPECT_NO_THROW(safetensors_format().place({{"\xc3\xbc", DType::f32, {1}}}, 100));
}

TEST(PlaceSafetensors, refuses_sizes_beyond_64_bits) {
    EXPECT_THROW(
        safetensors_format().place({{"a", DType::f32, {Index{1} << 40, Index{1} << 40}}}, 1),
        Error);
}

}  // namespace
}  // namespace shardweld::outputs

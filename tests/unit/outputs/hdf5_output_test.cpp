#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "outputs/format.hpp"
#include "outputs/hdf5/hdf5_module.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {
namespace {

const std::vector<OutputTensor>& tensors() {
    static const std::vector<OutputTensor> all = {{"layers.9.w", DType::bf16, {2, 3}},
                                                  {"layers.10.b", DType::f32, {5}},
                                                  {"layers.10.e", DType::f32, {0, 4}},
                                                  {"layers.10.s", DType::i64, {}}};
    return all;
}

/// The error of settle for one file with the given offsets; "" for none.
std::string fault_of(const std::vector<Bytes>& offsets, Bytes file_size) {
    Placement placement = hdf5_format().place(tensors(), 1000);
    hdf5_format().embed_config(placement, "{\"config\": 1}");
    try {
        place_datasets(placement, 0, tensors(), offsets, file_size);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        return error.full_text();
    }
    return "";
}

TEST(PlaceHdf5, estimates_until_the_library_tells) {
    Placement placement = hdf5_format().place(tensors(), 1000);
    EXPECT_EQ(placement.format, &hdf5_format());
    EXPECT_FALSE(placement.is_settled);
    ASSERT_EQ(placement.files.size(), 1U);
    EXPECT_EQ(placement.files[0].name, "model.h5");
    EXPECT_EQ(placement.files[0].tensors, (std::vector<std::uint32_t>{3, 1, 2, 0}));
    EXPECT_EQ(placement.tensor_bytes, 40U);
    EXPECT_GT(placement.files[0].size, 40U);
    EXPECT_TRUE(placement.side_files.empty());

    const Bytes before = placement.files[0].size;
    hdf5_format().embed_config(placement, "{\"config\": 1}");
    EXPECT_EQ(placement.files[0].header, "{\"config\": 1}");
    EXPECT_EQ(placement.files[0].size, before + 13);
    // In the order of the file: layers.10.s, layers.10.b, layers.10.e (empty), layers.9.w.
    place_datasets(placement, 0, tensors(), std::vector<Bytes>{500, 600, ~Bytes{0}, 620, 487}, 632);
    EXPECT_EQ(placement.files[0].size, 632U);
    EXPECT_EQ(placement.files[0].header_offset, 487U);
    EXPECT_EQ(placement.slots[0].offset, 620U);
    EXPECT_EQ(placement.slots[1].offset, 600U);
    EXPECT_EQ(placement.slots[2].offset, 0U);
    EXPECT_EQ(placement.slots[3].offset, 500U);
}

TEST(PlaceHdf5, believes_no_library) {
    EXPECT_EQ(fault_of({500, 600, ~Bytes{0}, 620, 400}, 632), "");
    EXPECT_NE(fault_of({500, 600, ~Bytes{0}, 620, 400}, 631).find("layers.9.w"),
              std::string::npos);  // ends behind the file
    EXPECT_NE(fault_of({500, 600, ~Bytes{0}, 619, 400}, 900).find("layers.9.w"),
              std::string::npos);  // over layers.10.b
    EXPECT_NE(fault_of({500, 600, ~Bytes{0}, 620, 493}, 900).find("layers.10.s"),
              std::string::npos);  // under the config
    EXPECT_NE(fault_of({0, 600, ~Bytes{0}, 620, 400}, 900).find("layers.10.s"),
              std::string::npos);  // over the file's signature
    EXPECT_NE(fault_of({~Bytes{0}, 600, ~Bytes{0}, 620, 400}, 900).find("layers.10.s"),
              std::string::npos);  // nowhere
}

TEST(PlaceHdf5, packs_as_safetensors_does) {
    const std::vector<OutputTensor> many = {{"a", DType::u8, {60}},
                                            {"b", DType::u8, {40}},
                                            {"c", DType::u8, {1}},
                                            {"d", DType::u8, {500}}};
    const Placement placement = hdf5_format().place(many, 100);
    const Placement other = safetensors_format().place(many, 100);
    ASSERT_EQ(placement.files.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(placement.files[i].tensors, other.files[i].tensors);
    }
    EXPECT_EQ(placement.files[2].name, "model-00003-of-00003.h5");
    ASSERT_EQ(placement.side_files.size(), 1U);
    EXPECT_EQ(placement.side_files[0].name, "model.h5.index.json");
    const auto index = nlohmann::json::parse(placement.side_files[0].text);
    EXPECT_EQ(index["metadata"]["total_size"], 601);
    EXPECT_EQ(index["weight_map"]["c"], "model-00002-of-00003.h5");
}

TEST(PlaceHdf5, refuses_names_that_are_no_links) {
    for (const char* name : {"", ".", "a/b", "\xed\xa0\x80", kConfigDataset}) {
        EXPECT_THROW(hdf5_format().place({{name, DType::f32, {1}}}, 100), Error) << name;
    }
    EXPECT_THROW(hdf5_format().place({{std::string("a\0b", 3), DType::f32, {1}}}, 100), Error);
    EXPECT_NO_THROW(hdf5_format().place({{"..", DType::f32, {1}}}, 100));
}

TEST(EmbedConfig, leaves_safetensors_alone) {
    Placement placement = safetensors_format().place(tensors(), 1000);
    const std::string header = placement.files[0].header;
    safetensors_format().embed_config(placement, "{}");
    EXPECT_EQ(placement.files[0].header, header);
}

}  // namespace
}  // namespace shardweld::outputs

#include "formats/containers/safetensors_header.hpp"

#include <gtest/gtest.h>

#include "io/input_file.hpp"

#include "safetensors_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using test::bytes_entry;
using test::safetensors;

SafetensorsHeader read_header(const std::string& content, Bytes begin = 0) {
    const Scratch scratch;
    scratch.file("m.safetensors", content);
    return read_safetensors(io::InputFile::open(scratch.path() / "m.safetensors"), begin);
}

void refused(const std::string& part, const std::string& header, std::size_t data_bytes = 8,
             ErrorCode code = ErrorCode::corrupt) {
    expect_error(code, part, [&] { read_header(safetensors(header, data_bytes)); });
}

std::string only(const std::string& entry) {
    return "{" + entry + "}";
}

TEST(Safetensors, gives_tensors_and_metadata) {
    const auto header = read_header(safetensors(
        R"({"__metadata__": {"format": "pt"}, "b": {"shape": [2, 3], "dtype": "BF16", "data_offsets": [4, 16]},)"
        R"( "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},)"
        R"( "none": {"dtype": "I64", "shape": [0, 4], "data_offsets": [4, 4]}}   )",
        16));
    EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
    ASSERT_EQ(header.tensors.size(), 3U);
    const StoredTensor& b = header.tensors.at("b");
    EXPECT_EQ(b.dtype, DType::bf16);
    EXPECT_EQ(b.strides, (std::vector<Index>{3, 1}));
    EXPECT_EQ(b.storage_offset - header.tensors.at("a").storage_offset, 4U);
    EXPECT_EQ(header.tensors.at("none").volume(), 0);
}

TEST(Safetensors, may_begin_inside_a_file) {
    const std::string container = safetensors(only(bytes_entry("a", 0, 3)), 3);
    const auto header = read_header("12345" + container, 5);
    EXPECT_EQ(header.tensors.at("a").storage_offset, 5 + container.size() - 3);
    EXPECT_EQ(read_header(safetensors("{}", 0)).tensors.size(), 0U);
}

TEST(Safetensors, must_be_filled_exactly) {
    read_header(safetensors(only(bytes_entry("a", 0, 4) + "," + bytes_entry("b", 4, 8)), 8));
    refused("a hole of 2 bytes before tensor b",
            only(bytes_entry("a", 0, 4) + "," + bytes_entry("b", 6, 8)));
    refused("a hole of 1 bytes before tensor a", only(bytes_entry("a", 1, 8)));
    refused("tensors a and b overlap", only(bytes_entry("a", 0, 5) + "," + bytes_entry("b", 4, 8)));
    refused("tensors a and b overlap", only(bytes_entry("a", 0, 8) + "," + bytes_entry("b", 0, 8)));
    refused("1 bytes follow after the last tensor, a", only(bytes_entry("a", 0, 7)));
    refused("8 bytes follow after the last tensor", "{}");
    refused("tensor a ends at byte 9 of the data, which has 8", only(bytes_entry("a", 0, 9)));
}

TEST(Safetensors, sizes_must_fit_shapes) {
    refused("shape [3] of F32 does not take the 8 bytes that data_offsets give it [tensor a]",
            R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})");
    refused(
        "[tensor a]",
        R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 8]}})");
    refused("data_offsets are not a begin and an end",
            R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})");
    refused("data_offsets are not a begin and an end",
            R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8]}})");
    refused("dtype F4 is not supported [tensor a]",
            R"({"a": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}})", 8,
            ErrorCode::unsupported);
}

TEST(Safetensors, keys_come_once) {
    refused("key a comes twice, with different tensors",
            only(bytes_entry("a", 0, 4) + "," + bytes_entry("a", 0, 8)));
    refused("key __metadata__ comes twice",
            only(R"("__metadata__": {}, "__metadata__": {}, )" + bytes_entry("a", 0, 8)));
    refused("tensor a: shape comes twice",
            R"({"a": {"dtype": "U8", "shape": [8], "shape": [8], "data_offsets": [0, 8]}})");
}

// Read with safetensors 0.8, which takes them.
TEST(Safetensors, odd_texts_are_read_as_by_others) {
    const std::string a = bytes_entry("a", 0, 8);
    for (const std::string& text :
         {" \n" + only(a), only(a) + "\n", only(R"("__metadata__": null, )" + a), only(a + "," + a),
          only(R"("__metadata__": {"x": "1", "x": "2"}, )" + a),
          std::string(
              R"({"a": {"more": {"b": [[1, {}], null, "x"], "shape": -1}, "dtype": "U8",)") +
              R"( "shape": [8], "less": 1.5, "data_offsets": [0, 8]}})"}) {
        EXPECT_EQ(read_header(safetensors(text, 8)).tensors.size(), 1U) << text;
    }
}

TEST(Safetensors, text_must_be_of_the_known_form) {
    refused("it is not valid JSON at byte", "{");
    refused("it is not valid JSON at byte", "{} {}");
    refused("it is not valid JSON at byte", "{\"\xff\": 1}");
    refused("does not begin with '{'", "7");
    refused("does not begin with '{'", "[]");
    refused("tensor a is not an object", R"({"a": 1})");
    refused("tensor a has no shape", R"({"a": {"dtype": "U8", "data_offsets": [0, 8]}})");
    refused("tensor a: shape is not a list of numbers from 0",
            R"({"a": {"dtype": "U8", "shape": [-8], "data_offsets": [0, 8]}})");
    refused("tensor a: shape is not a list of numbers from 0",
            R"({"a": {"dtype": "U8", "shape": [[8]], "data_offsets": [0, 8]}})");
    refused("tensor a: shape is not a list of numbers from 0",
            R"({"a": {"dtype": "U8", "shape": 8, "data_offsets": [0, 8]}})");
    refused("tensor a: dtype is not a text",
            R"({"a": {"dtype": 8, "shape": [8], "data_offsets": [0, 8]}})");
    refused("tensor a has no dtype",
            R"({"a": {"more": {"dtype": "U8"}, "shape": [8], "data_offsets": [0, 8]}})");
    refused("__metadata__ is not an object",
            only(R"("__metadata__": [], )" + bytes_entry("a", 0, 8)));
    refused("__metadata__: x is not a text",
            only(R"("__metadata__": {"x": 1}, )" + bytes_entry("a", 0, 8)));
    refused("malformed safetensors header", "{\"a\": " + std::string(100000, '['));
}

TEST(Safetensors, length_must_fit_the_file) {
    expect_error(ErrorCode::corrupt, "it has 5 bytes", [] { read_header("12345"); });
    expect_error(ErrorCode::corrupt, "it claims 3978425819141910832 bytes",
                 [] { read_header("01234567{}"); });
}

}  // namespace
}  // namespace shardweld::formats

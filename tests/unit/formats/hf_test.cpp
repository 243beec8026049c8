#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "safetensors_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using test::bytes_entry;
using test::safetensors;

const std::string kA = safetensors("{" + bytes_entry("a", 0, 4) + "}", 4);
const std::string kB = safetensors("{" + bytes_entry("b", 0, 2) + "}", 2);

std::string index_of(const std::string& map) {
    return R"({"metadata": {"total_size": 6}, "weight_map": {)" + map + "}}";
}

catalogue::Catalogue read_model(const Scratch& scratch) {
    JobInput request;
    request.directory = scratch.path();
    request.backend = "hf";
    return read_catalogue(locate(request));
}

void refused(const Scratch& scratch, ErrorCode code, const std::string& part) {
    expect_error(code, part, [&] { read_model(scratch); });
}

TEST(HuggingFace, reads_one_file) {
    const Scratch scratch;
    scratch.file("model.safetensors", kA);
    scratch.file("adapter_model.safetensors", kB);
    const auto catalogue = read_model(scratch);
    EXPECT_EQ(catalogue.format, "huggingface");
    EXPECT_EQ(catalogue.dialect, "hf_module");
    ASSERT_EQ(catalogue.tensors.size(), 1U);
    EXPECT_EQ(catalogue.tensors[0].name, "a");
    ASSERT_EQ(catalogue.tensors[0].pieces.size(), 1U);
    EXPECT_EQ(catalogue.tensors[0].pieces[0].base, kA.size() - 4);
    EXPECT_EQ(catalogue.files[0].size, kA.size());
}

TEST(HuggingFace, holds_tensors_without_dimensions_against_their_shards) {
    const std::string right =
        safetensors(R"({"step": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})", 4);
    const std::string zero = right.substr(0, right.size() - 4) + std::string(4, '\0');
    const Scratch scratch;
    scratch.file("model.safetensors", zero);
    EXPECT_EQ(read_model(scratch).tensors.size(), 1U);
    scratch.file("sharded/shard-00001-model-00001-of-00001.safetensors", right);
    refused(scratch, ErrorCode::mismatch, "tensor step has another value in ");
    scratch.file("model.safetensors", right);
    EXPECT_EQ(read_model(scratch).tensors.size(), 1U);
}

TEST(HuggingFace, says_what_has_only_the_name_of_safetensors) {
    const Scratch scratch;
    scratch.file("model.safetensors", "PK\x03\x04" + std::string(100, 'x'));
    refused(scratch, ErrorCode::unsupported, "torch's HuggingFace writer makes that of objects");
    scratch.file("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:12");
    refused(scratch, ErrorCode::unsupported, "git lfs pull");
    // The length of a header may be what an archive begins with.
    const std::string header = "{" + bytes_entry("a", 0, 4) + "}";
    scratch.file("model.safetensors",
                 safetensors(header + std::string(0x8B1F - header.size(), ' '), 4));
    EXPECT_EQ(read_model(scratch).tensors.size(), 1U);
}

TEST(HuggingFace, is_no_checkpoint_unless_it_is_named) {
    const Scratch scratch;
    scratch.file("model.safetensors", kA);
    JobInput request;
    request.directory = scratch.path();
    expect_error(ErrorCode::not_found,
                 "is a HuggingFace model already; add --quantize, --dtype or --max_shard_size",
                 [&] { locate(request); });
}

TEST(HuggingFace, holds_files_against_the_index) {
    const Scratch scratch;
    scratch.file("model.safetensors.index.json",
                 index_of(R"("a": "model-00001.safetensors", "b": "model-00002.safetensors")"));
    scratch.file("model-00001.safetensors", kA);
    refused(scratch, ErrorCode::not_found, "model-00002.safetensors");
    scratch.file("model-00002.safetensors", kA);
    refused(scratch, ErrorCode::not_found,
            "the index says that tensor b is in model-00002.safetensors, which does not hold it");
    scratch.file("model-00002.safetensors",
                 safetensors("{" + bytes_entry("b", 0, 2) + "," + bytes_entry("c", 2, 3) + "}", 3));
    const auto catalogue = read_model(scratch);
    EXPECT_EQ(catalogue.tensors.size(), 2U);
    EXPECT_EQ(catalogue.warnings.at("unassigned_tensors"),
              "1 tensor is in a file to which the index does not assign it, and is left aside: "
              "c");
    ASSERT_EQ(catalogue.ignored.size(), 1U);
    EXPECT_EQ(catalogue.ignored[0].pattern, "c");
    EXPECT_EQ(catalogue.ignored[0].bytes, 1U);
    scratch.file("model.safetensors", kA);
    refused(scratch, ErrorCode::mismatch, "holds two models");
}

TEST(HuggingFace, refuses_an_index_that_misleads) {
    const Scratch scratch;
    scratch.file("model.safetensors", kA);
    for (const char* file : {"../model.safetensors", "/etc/passwd", "x/./y", "", "x//y"}) {
        scratch.file("model.safetensors.index.json",
                     index_of(R"("a": ")" + std::string(file) + "\""));
        refused(scratch, ErrorCode::corrupt, "leaves the directory");
    }
    for (const char* text : {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": []})"}) {
        scratch.file("model.safetensors.index.json", text);
        refused(scratch, ErrorCode::corrupt, "model.safetensors.index.json is not a JSON object");
    }
    scratch.file("model.safetensors.index.json", index_of(R"("a": 1)"));
    refused(scratch, ErrorCode::corrupt, "gives the tensor a no file name");
}

TEST(HuggingFace, reads_files_without_an_index) {
    const Scratch scratch;
    scratch.file("model-00001-of-00002.safetensors", kA);
    refused(scratch, ErrorCode::not_found,
            "of 2 files of one set 1 are there; missing: model-00002-of-00002.safetensors; copy "
            "the missing ones too, or remove what is left of another model");
    scratch.file("model-00002-of-00002.safetensors",
                 safetensors("{" + bytes_entry("a", 0, 4) + "," + bytes_entry("b", 4, 6) + "}", 6));
    const auto catalogue = read_model(scratch);
    ASSERT_EQ(catalogue.tensors.size(), 2U);
    ASSERT_EQ(catalogue.tensors[0].pieces.size(), 2U);
    EXPECT_EQ(catalogue.tensors[0].pieces[1].replica, 1U);
    scratch.file("model-00002-of-00002.safetensors",
                 safetensors("{" + bytes_entry("a", 0, 5) + "}", 5));
    refused(scratch, ErrorCode::mismatch, "a is [");
    scratch.file("model.safetensors", kA);
    refused(scratch, ErrorCode::mismatch, "holds two models");
}

TEST(HuggingFace, names_file_and_tensor_of_bad_headers) {
    const Scratch scratch;
    scratch.file("model.safetensors", R"(123)");
    refused(scratch, ErrorCode::corrupt, "[file model.safetensors]");
    scratch.file("model.safetensors",
                 safetensors(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 4]}})", 4));
    refused(scratch, ErrorCode::corrupt, "[tensor a; file model.safetensors]");
}

}  // namespace
}  // namespace shardweld::formats

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/colossalai/shard_names.hpp"
#include "formats/format.hpp"

#include "safetensors_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using test::bytes_entry;
using test::safetensors;

const std::string kOnlyA = safetensors("{" + bytes_entry("a", 0, 4) + "}", 4);
const std::string kBoth =
    safetensors("{" + bytes_entry("a", 0, 4) + "," + bytes_entry("b", 4, 6) + "}", 6);

constexpr const char* kFirst = "model-stage-00001-shard-00001.safetensors";
constexpr const char* kSecond = "model-stage-00002-shard-00001.safetensors";
constexpr const char* kFirstIndex = "tmp_index_files/model.safetensors.index-stage-00001.json";
constexpr const char* kSecondIndex = "tmp_index_files/model.safetensors.index-stage-00002.json";

std::string map_of(const std::string& map) {
    return R"({"metadata": {"total_size": 0.25}, "weight_map": {)" + map + "}}";
}

std::string map_of(const std::string& tensor, const std::string& file) {
    return map_of('"' + tensor + "\": \"" + file + '"');
}

Catalogue read_colossal(const fs::path& directory, const std::string& backend = "auto") {
    JobInput request;
    request.directory = directory;
    request.backend = backend;
    return read_catalogue(locate(request));
}

/// Two stages, of which the second holds the first one's `a` again.
void write_stages(const Scratch& scratch) {
    scratch.file(kFirst, kOnlyA);
    scratch.file(kSecond, kBoth);
}

TEST(ColossalAi, knows_its_names) {
    using colossalai::parse_shard;
    using colossalai::parse_stage_index;
    for (const char* name :
         {"model-00001-of-00002.safetensors", "model.safetensors", "model-.bin",
          "model-a.safetensors", "model-stage-00001.safetensors",
          "model-stage--shard-00001.safetensors", "model-stage-1-2-3-shard-00001.safetensors",
          "model-00001.bin", "pytorch_optim-00001.bin",
          "model-stage-00001-shard-00001.safetensors.json", "-00001.safetensors", "-", ""}) {
        EXPECT_FALSE(parse_shard(name)) << name;
    }
    EXPECT_EQ(parse_shard("pytorch_model-00003.bin")->model, "pytorch_model.bin");
    EXPECT_EQ(parse_shard("model-00003.safetensors")->stage, "");
    EXPECT_EQ(parse_shard(kSecond)->stage, "00002");
    EXPECT_EQ(parse_shard("pytorch_model-stage-00002-00001-shard-00009.bin")->stage, "00002-00001");
    EXPECT_EQ(parse_stage_index("pytorch_model.bin.index-stage-00002.json")->number, 2);
    EXPECT_FALSE(parse_stage_index("pytorch_model.bin.index.json"));
    EXPECT_EQ(stage_index_name(*parse_shard(kSecond)), "model.safetensors.index-stage-00002.json");
}

TEST(ColossalAi, compares_what_two_stages_hold) {
    const Scratch scratch;
    write_stages(scratch);
    scratch.file("model.safetensors.index.json",
                 map_of("\"a\": \"" + std::string(kSecond) + "\", \"b\": \"" + kSecond +
                        "\", \"x\": \"" + kFirst + '"'));
    expect_error(ErrorCode::not_found, "the index says that tensor x is in",
                 [&] { read_colossal(scratch.path()); });
    const std::string map =
        "\"a\": \"" + std::string(kFirst) + "\", \"b\": \"" + std::string(kSecond) + '"';
    scratch.file("model.safetensors.index.json", map_of(map));
    const Catalogue got = read_colossal(scratch.path());
    EXPECT_EQ(got.format, "colossalai");
    EXPECT_EQ(got.dialect, "hf_module");
    EXPECT_TRUE(got.warnings.empty());
    ASSERT_EQ(got.tensors.size(), 2U);
    ASSERT_EQ(got.tensors[0].pieces.size(), 2U);
    EXPECT_EQ(got.tensors[0].pieces[1].replica, 1U);
}

TEST(ColossalAi, takes_the_stages_indices_of_a_save_that_was_cut_short) {
    const Scratch scratch;
    write_stages(scratch);
    expect_error(ErrorCode::not_found,
                 "has shards but no model.safetensors.index.json, which is written last; the save "
                 "was cut short",
                 [&] { read_colossal(scratch.path()); });
    scratch.file(kFirstIndex, map_of("a", kFirst));
    expect_error(ErrorCode::not_found, std::string("are missing: ") + kSecondIndex,
                 [&] { read_colossal(scratch.path()); });
    scratch.file(kSecondIndex,
                 map_of("\"a\": \"" + std::string(kSecond) + "\", \"b\": \"" + kSecond + '"'));
    const Catalogue got = read_colossal(scratch.path());
    ASSERT_EQ(got.tensors.size(), 2U);
    EXPECT_EQ(got.tensors[0].pieces.size(), 2U);
    EXPECT_NE(got.notes.at(1).find("cut short"), std::string::npos);
    fs::remove(scratch.path() / kFirst);
    expect_error(ErrorCode::not_found, kFirst, [&] { read_colossal(scratch.path()); });
    fs::remove(scratch.path() / kFirstIndex);
    expect_error(ErrorCode::not_found, "files of pipeline stage 1 are missing",
                 [&] { read_colossal(scratch.path()); });
    fs::remove(scratch.path() / kSecond);
    expect_error(ErrorCode::not_found, "has tmp_index_files but no shards",
                 [&] { read_colossal(scratch.path()); });
}

TEST(ColossalAi, refuses_two_models_and_optimizers) {
    const Scratch scratch;
    write_stages(scratch);
    scratch.file("pytorch_model-00001.bin");
    expect_error(ErrorCode::mismatch, "holds shards of two models",
                 [&] { read_colossal(scratch.path()); });
    const Scratch optimizer;
    optimizer.file("pytorch_optim-stage-00001-shard-00001.bin");
    optimizer.directory("tmp_index_files");
    expect_error(ErrorCode::unsupported, "is the optimizer of a ColossalAI checkpoint",
                 [&] { read_colossal(optimizer.path()); });
}

TEST(ColossalAi, reads_one_file_of_any_name_when_asked) {
    const Scratch scratch;
    scratch.file("model.safetensors", kOnlyA);
    EXPECT_EQ(read_colossal(scratch.path(), "colossalai").tensors.size(), 1U);
    expect_error(ErrorCode::not_found, "is a HuggingFace model already",
                 [&] { read_colossal(scratch.path()); });
}

}  // namespace
}  // namespace shardweld::formats

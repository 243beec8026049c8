#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "catalogue/provenance.hpp"
#include "core/text.hpp"
#include "formats/dcp/join_scans.hpp"
#include "formats/format.hpp"

#include "safetensors_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;

fs::path saved(const std::string& name) {
    return fs::path(SHARDWELD_TEST_DATA) / "torch" / name / "source";
}

Catalogue read_dcp(const fs::path& directory, const std::string& prefix = "") {
    JobInput request;
    request.directory = directory;
    request.prefix = prefix;
    return read_catalogue(locate(request));
}

TEST(Dcp, describes_the_model_of_a_nested_save) {
    const Catalogue got = read_dcp(saved("dcp_w2_bf16_qwen2"));
    EXPECT_EQ(got.format, "torch dcp");
    EXPECT_EQ(got.dialect, "hf_module");
    ASSERT_EQ(got.tensors.size(), 27U);
    const auto& head = got.tensors.front();
    EXPECT_EQ(head.name, "lm_head.weight");
    EXPECT_EQ(head.stored_as, "model.lm_head.weight");
    EXPECT_EQ(head.shape, (std::vector<Index>{101, 48}));
    ASSERT_EQ(head.pieces.size(), 2U);
    EXPECT_EQ(layout::to_text(head.pieces[1].patch), "0 + [51,101)*48 [0,48)*1");
    std::map<std::string, std::string> rows;
    for (const auto& row : got.ignored) {
        rows[row.pattern] = row.reason;
    }
    EXPECT_EQ(rows, (std::map<std::string, std::string>{{"meta*", "outside the chosen state dict"},
                                                        {"meta.lr", "not a tensor"},
                                                        {"meta.note", "not a tensor"},
                                                        {"step", "not a tensor"}}));
}

TEST(Dcp, knows_olmo_cores_storage_and_names) {
    JobInput request;
    request.directory = fs::path(SHARDWELD_TEST_DATA) / "world/olmo_core_metadata";
    const Location location = locate(request);
    const Catalogue got = combine(location, {format_of(location).scan(location, ".metadata")});
    EXPECT_EQ(got.dialect, "olmo_core");
    EXPECT_EQ(got.notes.back(), "its names are OLMo-core's");
    EXPECT_EQ(got.files.size(), 12U);
    ASSERT_EQ(got.tensors.size(), 25U);
    EXPECT_EQ(got.tensors.front().name, "blocks.0.attention.k_norm.weight");
    EXPECT_EQ(got.tensors.front().stored_as, "model.blocks.0.attention.k_norm.weight");
}

TEST(Dcp, says_which_files_could_be_exchanged) {
    const Scratch scratch;
    scratch.copy(saved("dcp_w2_bf16_qwen2"));
    const Catalogue got = read_dcp(scratch.path());
    std::vector<std::string> likenesses;
    for (const auto& statement : got.statements) {
        if (!statement.likeness.empty()) {
            likenesses.push_back(statement.likeness);
        }
    }
    ASSERT_EQ(likenesses.size(), 2U);  // 101 rows: the second rank has fewer
    EXPECT_NE(likenesses[0], likenesses[1]);
    EXPECT_EQ(catalogue::compare_statements(got.files, got.statements).standing,
              catalogue::Standing::consistent);
    const Catalogue ranks = read_dcp(saved("dcp_nocollect_w2"));
    EXPECT_EQ(catalogue::compare_statements(ranks.files, ranks.statements).standing,
              catalogue::Standing::consistent);
    // A file ends where its metadata says.
    std::ofstream(scratch.path() / "__1_0.distcp", std::ios::app) << "more";
    expect_error(ErrorCode::mismatch, "by .metadata its last item ends at",
                 [&] { read_dcp(scratch.path()); });
}

TEST(Dcp, puts_the_metadata_of_ranks_together) {
    const Scratch scratch;
    scratch.copy(saved("dcp_nocollect_w2"));
    const Catalogue got = read_dcp(scratch.path());
    ASSERT_EQ(got.tensors.size(), 15U);
    for (const auto& tensor : got.tensors) {
        EXPECT_EQ(tensor.pieces.size(), 2U) << tensor.name;
    }
    fs::rename(scratch.path() / "__1.metadata", scratch.path() / "aside");
    expect_error(ErrorCode::not_found, "lm_head.weight is not complete: the files hold 744 of its",
                 [&] { read_dcp(scratch.path()); });
    fs::rename(scratch.path() / "__0.metadata", scratch.path() / "__1.metadata");
    expect_error(ErrorCode::not_found, "__0.metadata", [&] { read_dcp(scratch.path()); });
    // The second rank's data under the first rank's metadata: the same chunks in two files.
    fs::copy(scratch.path() / "__1.metadata", scratch.path() / "__0.metadata");
    expect_error(ErrorCode::corrupt, "overlap", [&] { read_dcp(scratch.path()); });
}

std::string told(const Catalogue& catalogue) {
    const auto warning = catalogue.warnings.find("unreferenced_files");
    std::string text = warning == catalogue.warnings.end() ? "" : warning->second;
    for (const auto& row : catalogue.ignored) {
        if (row.pattern.ends_with(".distcp")) {
            text += " [" + row.pattern + " " + std::to_string(row.count) + " " +
                    std::to_string(row.bytes) + " " + row.reason + "]";
        }
    }
    return text;
}

TEST(Dcp, tells_of_shard_files_that_no_metadata_names) {
    const Scratch scratch;
    scratch.copy(saved("dcp_w2_bf16_qwen2"));
    const auto copy = [&](const char* from, const char* to) {
        fs::copy(scratch.path() / from, scratch.path() / to);
    };
    EXPECT_EQ(told(read_dcp(scratch.path())), "");
    // What torch leaves of ranks with nothing to save.
    scratch.file("__2_0.distcp", "");
    scratch.file(
        "__3_0.distcp",
        std::string("P\0\0\0\0\0\0\0", 8) +
            R"({"__metadata__":{"format":"pt","DCP_VERSION":"1.0","DCP_SHARDING_INFO":"{}"}}   )");
    EXPECT_EQ(told(read_dcp(scratch.path())), "");
    copy("__0_0.distcp", "__10_0.distcp");
    copy("__1_0.distcp", "__7_0.distcp");
    const Bytes bytes = fs::file_size(scratch.path() / "__0_0.distcp") +
                        fs::file_size(scratch.path() / "__1_0.distcp");
    EXPECT_EQ(told(read_dcp(scratch.path())),
              "2 shard files with " + human_bytes(bytes) +
                  " are not named in .metadata and not read: __7_0.distcp, __10_0.distcp; do they "
                  "belong to another save? [*.distcp 2 " +
                  std::to_string(bytes) + " a file that .metadata does not name]");
}

TEST(Dcp, tells_of_shard_files_that_no_ranks_metadata_names) {
    const Scratch scratch;
    scratch.copy(saved("dcp_nocollect_w2"));
    EXPECT_EQ(told(read_dcp(scratch.path())), "");
    for (const char* name : {"__1_1.distcp", "__7_0.distcp"}) {
        fs::copy(scratch.path() / "__0_0.distcp", scratch.path() / name);
        const std::string text = told(read_dcp(scratch.path()));
        EXPECT_NE(text.find("1 shard file"), std::string::npos) << text;
        EXPECT_NE(text.find(name), std::string::npos) << text;
        fs::remove(scratch.path() / name);
    }
}

TEST(Dcp, takes_safetensors_items_and_a_prefix) {
    const fs::path directory = saved("dcp_ema_safetensors_w2");
    expect_error(ErrorCode::usage, "ema (15 tensors), model (15 tensors)",
                 [&] { read_dcp(directory); });
    const Catalogue model = read_dcp(directory, "model");
    const Catalogue ema = read_dcp(directory, "ema.");
    ASSERT_EQ(model.tensors.size(), 15U);
    ASSERT_EQ(ema.tensors.size(), 15U);
    EXPECT_EQ(model.tensors[0].name, "lm_head.weight");
    EXPECT_EQ(model.tensors[0].stored_as, "model._orig_mod.lm_head.weight");
    EXPECT_EQ(ema.tensors[0].stored_as, "ema.lm_head.weight");
    EXPECT_NE(ema.tensors[0].pieces[0].base, model.tensors[0].pieces[0].base);
}

TEST(Dcp, reads_shards_of_the_huggingface_writer) {
    const Scratch scratch;
    scratch.copy(saved("dcp_hf_consolidated_w3") / "sharded");
    const Catalogue got = read_dcp(scratch.path());
    EXPECT_EQ(got.format, "torch dcp safetensors");
    EXPECT_EQ(got.files.size(), 6U);
    ASSERT_EQ(got.tensors.size(), 15U);
    EXPECT_EQ(got.tensors[0].shape, (std::vector<Index>{61, 24}));
    ASSERT_EQ(got.tensors[0].pieces.size(), 3U);
    EXPECT_EQ(got.tensors[0].pieces[2].patch.axes[0].lo, 42);
    fs::remove(scratch.path() / "shard-00002-model-00001-of-00002.safetensors");
    expect_error(ErrorCode::not_found, "is not complete", [&] { read_dcp(scratch.path()); });
    fs::remove(scratch.path() / "shard-00002-model-00002-of-00002.safetensors");
    expect_error(ErrorCode::not_found, "shard 2", [&] { read_dcp(scratch.path()); });
}

TEST(Dcp, takes_the_consolidated_model_before_its_shards) {
    const Catalogue got = read_dcp(saved("dcp_hf_consolidated_w3"));
    EXPECT_EQ(got.format, "huggingface");
    EXPECT_EQ(got.tensors.size(), 15U);
    EXPECT_EQ(got.files.size(), 2U);
}

void shard_refused(const std::string& part, const std::string& info) {
    const Scratch scratch;
    scratch.file("shard-00001-model-00001-of-00001.safetensors",
                 test::safetensors("{" + info + test::bytes_entry("a", 0, 4) + "}", 4));
    expect_error(ErrorCode::corrupt, part, [&] { read_dcp(scratch.path()); });
}

std::string info_of(const std::string& json) {
    std::string escaped;
    for (const char c : json) {
        escaped.append(c == '"' ? "\\\"" : std::string(1, c));
    }
    return R"("__metadata__": {"DCP_SHARDING_INFO": ")" + escaped + R"("}, )";
}

TEST(Dcp, refuses_shards_that_do_not_say_where_they_belong) {
    shard_refused("has no DCP_SHARDING_INFO", "");
    shard_refused("it is not a JSON object", info_of("[]"));
    shard_refused("tensor a has no list of saved_offsets", info_of(R"({"a": {}})"));
    shard_refused("tensor a has no list of saved_offsets",
                  info_of(R"({"a": {"saved_offsets": [-1]}})"));
    shard_refused("[tensor a; file shard-00001", info_of(R"({"b": {"saved_offsets": [0]}})"));
    shard_refused("[tensor a; file shard-00001", info_of(R"({"a": {"saved_offsets": [0, 0]}})"));
    shard_refused("[tensor a; file shard-00001",
                  info_of(R"({"a": {"saved_offsets": [9223372036854775807]}})"));
}

TEST(Dcp, says_when_the_save_was_cut_short) {
    const Scratch scratch;
    scratch.copy(saved("dcp_w2_bf16_qwen2"));
    fs::remove(scratch.path() / ".metadata");
    expect_error(ErrorCode::not_found, ".distcp files but no .metadata",
                 [&] { read_dcp(scratch.path()); });
}

}  // namespace
}  // namespace shardweld::formats

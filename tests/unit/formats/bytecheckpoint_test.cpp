#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "dcp_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using test::chunk_of;
using test::index_of;
using test::Pairs;
using test::place_of;
using test::size_of_counts;
using test::storage;
using test::tensor_v2;
using test::unicode;
using test::view_of;

Catalogue read_bytecheckpoint(const fs::path& directory, const std::string& backend = "auto") {
    JobInput request;
    request.directory = directory;
    request.backend = backend;
    return read_catalogue(locate(request));
}

/// model/ with one tensor `name` of 2x3 bfloat16, whole, in one file of twelve bytes.
struct Saved {
    std::string name = "layers.0.weight";
    std::string view =
        view_of(tensor_v2(storage("torch BFloat16Storage", "0", 6), 0, {2, 3}, {3, 1}));
    std::int64_t length = 12;
    std::string bytes = "abcdefghijkl";

    void write(const Scratch& scratch) const {
        const std::string key = index_of(name, size_of_counts({0, 0}));
        scratch.file("model/__0_0.distcp", bytes);
        scratch.file("model/.metadata",
                     test::bytecheckpoint_metadata_of(
                         {{unicode(name), test::tensor_of({2, 3}, {chunk_of({0, 0}, {2, 3})})}},
                         {{key, place_of("__0_0.distcp", 0, length)}}, {{key, view}}));
    }
};

void expect_refused(const Saved& saved, ErrorCode code, const std::string& part) {
    const Scratch scratch;
    saved.write(scratch);
    expect_error(code, part, [&] { read_bytecheckpoint(scratch.path()); });
}

TEST(ByteCheckpoint, finds_bare_items_at_every_level) {
    const Scratch scratch;
    Saved().write(scratch);
    for (const char* level : {"", "model"}) {
        const Catalogue got = read_bytecheckpoint(scratch.path() / level);
        EXPECT_EQ(got.format, "bytecheckpoint");
        EXPECT_EQ(got.dialect, "hf_module");
        ASSERT_EQ(got.tensors.size(), 1U);
        ASSERT_EQ(got.tensors[0].pieces.size(), 1U);
        EXPECT_TRUE(got.tensors[0].pieces[0].located);
        EXPECT_EQ(layout::to_text(got.tensors[0].pieces[0].patch), "0 + [0,2)*3 [0,3)*1");
    }
    expect_error(ErrorCode::usage, "is a ByteCheckpoint checkpoint; use --backend bytecheckpoint",
                 [&] { read_bytecheckpoint(scratch.path(), "dcp"); });
}

TEST(ByteCheckpoint, honours_strides_and_offsets_of_views) {
    const Scratch scratch;
    Saved saved;
    saved.view = view_of(tensor_v2(storage("torch BFloat16Storage", "5", 8), 1, {2, 3}, {1, 2}));
    saved.length = 16;
    saved.bytes = "0123456789abcdef";
    saved.write(scratch);
    const catalogue::Piece piece = read_bytecheckpoint(scratch.path()).tensors.at(0).pieces.at(0);
    EXPECT_EQ(layout::to_text(piece.patch), "1 + [0,2)*1 [0,3)*2");
    EXPECT_EQ(piece.storage_bytes, 16U);
}

TEST(ByteCheckpoint, names_tensors_by_their_frameworks) {
    for (const auto& [key, name, dialect] :
         {std::tuple("module.model.norm.weight", "model.norm.weight", "hf_module"),
          std::tuple("_fsdp_wrapped_module.model.norm.weight", "model.norm.weight", "hf_module"),
          std::tuple("module.decoder.final_layernorm.weight", "decoder.final_layernorm.weight",
                     "megatron_core")}) {
        const Scratch scratch;
        Saved saved;
        saved.name = key;
        saved.write(scratch);
        const Catalogue got = read_bytecheckpoint(scratch.path());
        EXPECT_EQ(got.tensors.at(0).name, name);
        EXPECT_EQ(got.dialect, dialect);
    }
}

TEST(ByteCheckpoint, refuses_views_that_do_not_fit) {
    const auto bfloat16 = [](std::int64_t count) {
        return storage("torch BFloat16Storage", "0", count);
    };
    for (const auto& [view, code, part] :
         std::vector<std::tuple<std::string, ErrorCode, std::string>>{
             {tensor_v2(storage("torch FloatStorage", "0", 3), 0, {2, 3}, {1, 0}),
              ErrorCode::corrupt,
              "is bfloat16 of shape [2, 3], but by all_tensor_metadata float32"},
             {tensor_v2(bfloat16(6), 0, {3, 2}, {2, 1}), ErrorCode::corrupt, "of shape [3, 2]"},
             {tensor_v2(bfloat16(7), 0, {2, 3}, {3, 1}), ErrorCode::corrupt,
              "should have 7 elements"},
             {tensor_v2(bfloat16(6), 1, {2, 3}, {3, 1}), ErrorCode::corrupt, "needs 14 bytes"},
             {tensor_v2(bfloat16(6), 0, {2, 3}, {-3, 1}), ErrorCode::corrupt, "stride"},
             {test::integer(7), ErrorCode::corrupt, "has 0 storages"},
             {test::tuple({bfloat16(6), bfloat16(6)}), ErrorCode::corrupt, "has 2 storages"},
             {bfloat16(6), ErrorCode::corrupt, "something that is not a tensor"},
             {test::call("posix system", {unicode("true")}), ErrorCode::corrupt, "posix"}}) {
        Saved saved;
        saved.view = view_of(view);
        expect_refused(saved, code, part);
    }
    const Scratch bare;
    bare.file(
        "model/.metadata",
        test::metadata_of({{unicode("w"), test::tensor_of({1}, {chunk_of({0}, {1})})}},
                          {{index_of("w", "N"), place_of("f", 0, 2)}}, {}, test::kByteCheckpoint));
    expect_error(ErrorCode::corrupt, "has no all_tensor_metadata",
                 [&] { read_bytecheckpoint(bare.path()); });
    Saved absent;
    absent.view = "N";
    expect_refused(absent, ErrorCode::corrupt, "the chunk at [0, 0] is not in all_tensor_metadata");
}

TEST(ByteCheckpoint, refuses_files_that_are_not_as_long_as_their_items) {
    Saved saved;
    saved.bytes = "abcdefghij";
    expect_refused(saved, ErrorCode::corrupt, "but the file has 10 bytes");
    saved.bytes = "abcdefghijklm";
    expect_refused(saved, ErrorCode::mismatch, "its last item ends at 12");
    saved = {};
    saved.length = 13;
    expect_refused(saved, ErrorCode::corrupt, "but the file has 12 bytes");
}

TEST(ByteCheckpoint, refuses_what_is_no_model) {
    Saved saved;
    saved.name = "layers.0._flat_param";
    expect_refused(saved, ErrorCode::unsupported, "save without save_decomposed_model_optimizer");
    saved.name = "state.layers.0.weight.exp_avg";
    expect_refused(saved, ErrorCode::not_found, "state and no weights");
    const Scratch scratch;
    Saved().write(scratch);
    fs::remove(scratch.path() / "model/.metadata");
    expect_error(ErrorCode::not_found, "has .distcp files but no .metadata",
                 [&] { read_bytecheckpoint(scratch.path()); });
    Saved().write(scratch);
    fs::remove(scratch.path() / "model/__0_0.distcp");
    expect_error(ErrorCode::not_found, "__0_0.distcp",
                 [&] { read_bytecheckpoint(scratch.path()); });
}

}  // namespace
}  // namespace shardweld::formats

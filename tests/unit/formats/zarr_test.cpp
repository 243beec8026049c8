#include <algorithm>
#include <cstring>

#include <sys/stat.h>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"
#include "formats/megatron/zarr_array.hpp"

#include "expected.hpp"
#include "fsdp_builder.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

constexpr const char* kReal = "qwen2-tied-tp2-zarr";

Location locate_zarr(const fs::path& directory) {
    JobInput request;
    request.directory = directory;
    return locate(request);
}

Catalogue read_zarr(const Scratch& scratch) {
    return read_catalogue(locate_zarr(scratch.path()));
}

std::string zarray(const std::string& shape, const std::string& chunks,
                   const std::string& more = R"("dtype": "<f4")") {
    return R"({"zarr_format": 2, "order": "C", "shape": )" + shape + R"(, "chunks": )" + chunks +
           R"(, "compressor": null, "filters": null, "fill_value": null, )" + more + "}";
}

std::string floats(const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// [3, 5] in chunks of [2, 3]: element (i, j) is 10 i + j, filling beyond the edges is -1.
void write_edged(const Scratch& scratch, const std::string& key) {
    scratch.file("metadata.json", R"({"sharded_backend": "zarr", "sharded_backend_version": 1})");
    scratch.file(key + "/.zarray", zarray("[3, 5]", "[2, 3]"));
    scratch.file(key + "/0.0", floats({0, 1, 2, 10, 11, 12}));
    scratch.file(key + "/0.1", floats({3, 4, -1, 13, 14, -1}));
    scratch.file(key + "/1.0", floats({20, 21, 22, -1, -1, -1}));
    scratch.file(key + "/1.1", floats({23, 24, -1, -1, -1, -1}));
}

// A directory whose only array says `text`, with one chunk "0" of four bytes.
void expect_refused(ErrorCode code, const std::string& part, const std::string& text) {
    const Scratch scratch;
    scratch.file("metadata.json", R"({"sharded_backend": "zarr"})");
    scratch.file("w/.zarray", text);
    scratch.file("w/0", floats({1}));
    expect_error(code, part, [&] { read_zarr(scratch); });
    expect_error(code, "file w/.zarray", [&] { read_zarr(scratch); });
}

TEST(Zarr, places_chunks_that_the_edges_cut) {
    const Scratch scratch;
    write_edged(scratch, "w");
    const Catalogue got = read_zarr(scratch);
    EXPECT_EQ(got.format, "megatron zarr");
    EXPECT_EQ(got.dialect, "megatron_core");
    EXPECT_EQ(got.facts, (std::map<std::string, Index>{{"t", 1}, {"te", 1}, {"version", 3}}));
    ASSERT_EQ(got.tensors.size(), 1U);
    const Tensor& w = got.tensors.front();
    EXPECT_EQ(w.name, "w");
    EXPECT_EQ(w.dtype, DType::f32);
    EXPECT_EQ(w.shape, (std::vector<Index>{3, 5}));
    std::vector<std::string> patches;
    for (const auto& piece : w.pieces) {
        const auto& file = got.files.at(piece.file);
        EXPECT_EQ(file.size, 24U);
        EXPECT_EQ(piece.storage_bytes, 24U);
        EXPECT_TRUE(piece.located);
        patches.push_back(file.path + ": " + layout::to_text(piece.patch));
        std::string expected;
        for (Index i = 0; i < piece.patch.axes[0].extent; ++i) {
            for (Index j = 0; j < piece.patch.axes[1].extent; ++j) {
                expected += floats({static_cast<float>(10 * (piece.patch.axes[0].lo + i) +
                                                       piece.patch.axes[1].lo + j)});
            }
        }
        const auto bytes =
            elements(scratch.path() / file.path, piece.base, piece.patch, DType::f32);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
    }
    EXPECT_EQ(patches, (std::vector<std::string>{
                           "w/0.0: 0 + [0,2)*3 [0,3)*1", "w/0.1: 0 + [0,2)*3 [3,5)*1",
                           "w/1.0: 0 + [2,3)*3 [0,3)*1", "w/1.1: 0 + [2,3)*3 [3,5)*1"}));
}

TEST(Zarr, numbers_more_than_ten_chunks_and_sorts_files_naturally) {
    const Scratch scratch;
    scratch.file("metadata.json", R"({"sharded_backend": "zarr"})");
    // Names chosen so that keys and paths sort differently: '.' comes before '/'.
    for (const std::string key : {"a", "a.b"}) {
        scratch.file(key + "/.zarray", zarray("[12]", "[1]"));
        for (int i = 0; i < 12; ++i) {
            scratch.file(key + "/" + std::to_string(i), floats({1}));
        }
    }
    const Catalogue got = read_zarr(scratch);
    ASSERT_EQ(got.files.size(), 24U);
    EXPECT_EQ(got.files[0].path, "a.b/0");
    EXPECT_EQ(got.files[23].path, "a/11");
    ASSERT_EQ(got.tensors.size(), 2U);
    for (const Tensor& tensor : got.tensors) {
        for (const auto& piece : tensor.pieces) {
            EXPECT_EQ(got.files[piece.file].path,
                      tensor.name + "/" + std::to_string(piece.patch.axes[0].lo));
        }
    }
}

TEST(Zarr, reads_scalars_empty_arrays_and_every_spelling_of_bfloat16) {
    const Scratch scratch;
    write_edged(scratch, "model.module.w");
    scratch.file("scalar/.zarray", zarray("[]", "[]"));
    scratch.file("scalar/0", floats({1}));
    scratch.file("empty/.zarray", zarray("[0, 3]", "[1, 3]"));
    for (const std::string dtype : {"bfloat16", "|V2", "<V2"}) {
        scratch.file("b" + dtype + "/.zarray",
                     zarray("[1]", "[1]", R"("dtype": ")" + dtype + "\""));
        scratch.file("b" + dtype + "/0", "xy");
    }
    const Catalogue got = read_zarr(scratch);
    std::map<std::string, std::pair<DType, std::size_t>> seen;
    for (const Tensor& tensor : got.tensors) {
        seen[tensor.name] = {tensor.dtype, tensor.pieces.size()};
    }
    EXPECT_EQ(seen,
              (std::map<std::string, std::pair<DType, std::size_t>>{{"b<V2", {DType::bf16, 1}},
                                                                    {"bbfloat16", {DType::bf16, 1}},
                                                                    {"b|V2", {DType::bf16, 1}},
                                                                    {"empty", {DType::f32, 0}},
                                                                    {"scalar", {DType::f32, 1}},
                                                                    {"w", {DType::f32, 4}}}));
}

TEST(Zarr, leaves_training_state_and_objects_aside) {
    const Scratch scratch;
    write_edged(scratch, "w");
    write_edged(scratch, "optimizer.state.exp_avg.w");
    scratch.file("optimizer.broken/.zarray", "not even JSON");
    scratch.file("rng_state/shard_0.0_1.1.pt", "12345");
    scratch.file("decoder.layers.mlp._extra_state/shard_0_2.pt", "12");
    scratch.file("decoder.layers.mlp._extra_state/shard_1_2.pt", "123");
    scratch.file("tokens/tokenizer.json", "1");
    scratch.file("w/.zattrs", "{}");
    const Catalogue got = read_zarr(scratch);
    EXPECT_EQ(got.tensors.size(), 1U);
    EXPECT_EQ(got.files.size(), 4U);
    std::map<std::string, std::pair<Index, Bytes>> rows;
    for (const auto& row : got.ignored) {
        rows[row.pattern + ": " + row.reason] = {row.count, row.bytes};
    }
    const Bytes edged =
        96 + fs::file_size(scratch.path() / "optimizer.state.exp_avg.w" / ".zarray");
    EXPECT_EQ(rows, (std::map<std::string, std::pair<Index, Bytes>>{
                        {"*._extra_state*: Transformer Engine state", {2, 5}},
                        {"optimizer*: training state", {2, edged + 13}},
                        {"rng_state*: training state", {1, 5}},
                        {"tokens: not a tensor", {1, 1}}}));
}

TEST(Zarr, takes_weights_of_modules_that_are_called_as_training_state) {
    const Scratch scratch;
    for (const char* const key :
         {"w", "optimizer.proj.weight", "optimizer.state.exp_avg.w.weight"}) {
        write_edged(scratch, key);
    }
    EXPECT_EQ(read_zarr(scratch).tensors.size(), 2U);
    const std::string weight = test::fsdp::local_tensor("0", {4});
    scratch.file("head/shard_0_1.pt",
                 test::torch_file(test::fsdp::list({test::fsdp::dict({{"weight", weight}})}),
                                  {{"0", std::string(16, 'x')}}));
    expect_error(ErrorCode::unsupported, "tensor head.weight lies beside the model's dictionary",
                 [&] { read_zarr(scratch); });
}

TEST(Zarr, names_chunks_that_are_missing) {
    const Scratch scratch;
    write_edged(scratch, "w");
    fs::remove(scratch.path() / "w" / "1.0");
    expect_error(
        ErrorCode::not_found,
        "1 of 4 chunk files are missing: 1.0 [file w/.zarray]; copy the files of all ranks",
        [&] { read_zarr(scratch); });
    // What is not a regular file is no chunk, and opening it would block.
    ASSERT_EQ(mkfifo((scratch.path() / "w" / "1.0").c_str(), 0600), 0);
    expect_error(ErrorCode::not_found, "1 of 4 chunk files are missing: 1.0",
                 [&] { read_zarr(scratch); });
    fs::remove(scratch.path() / "w" / "1.0");
    fs::create_symlink("1.0", scratch.path() / "w" / "1.0");
    expect_error(ErrorCode::not_found, "1 of 4 chunk files are missing: 1.0",
                 [&] { read_zarr(scratch); });
}

TEST(Zarr, bounds_a_huge_grid_by_the_files_there_are) {
    const Scratch scratch;
    scratch.file("metadata.json", R"({"sharded_backend": "zarr"})");
    scratch.file("w/.zarray", zarray("[1000000000000, 1000000]", "[1, 1]"));
    scratch.file("w/0.0", floats({1}));
    scratch.file("w/0.2", floats({1}));
    expect_error(ErrorCode::not_found,
                 "999999999999999998 of 1000000000000000000 chunk files are missing: 0.1, 0.3, 0.4",
                 [&] { read_zarr(scratch); });
    expect_error(ErrorCode::not_found, "0.21 and 999999999999999978 more",
                 [&] { read_zarr(scratch); });
}

TEST(Zarr, refuses_chunks_of_another_size_or_grid) {
    const Scratch scratch;
    write_edged(scratch, "w");
    scratch.file("w/1.1", floats({23, 24}));
    expect_error(ErrorCode::corrupt, "chunk file 1.1 is 8 bytes, expected 24 for chunks of [2, 3]",
                 [&] { read_zarr(scratch); });
    scratch.file("w/1.1", floats({23, 24, -1, -1, -1, -1, -1}));
    expect_error(ErrorCode::corrupt, "chunk file 1.1 is 28 bytes, expected 24",
                 [&] { read_zarr(scratch); });
    for (const std::string name :
         {"2.0", "0.2", "0", "0.0.0", "00.0", "0.99999999999999999999999"}) {
        const Scratch stale;
        write_edged(stale, "w");
        stale.file("w/" + name, floats({0, 0, 0, 0, 0, 0}));
        expect_error(ErrorCode::corrupt,
                     "chunk file " + name + " has no place in the grid of [2, 2] chunks",
                     [&] { read_zarr(stale); });
    }
}

TEST(Zarr, refuses_what_it_cannot_decode) {
    const std::string type = R"("dtype": "<f4", )";
    expect_refused(ErrorCode::unsupported, R"(compressor is {"id":"zstd"}, expected null)",
                   R"({"zarr_format": 2, "order": "C", "compressor": {"id": "zstd"}})");
    expect_refused(ErrorCode::unsupported, R"(filters is [{"id":"delta"}], expected null)",
                   R"({"zarr_format": 2, "order": "C", "filters": [{"id": "delta"}]})");
    expect_refused(ErrorCode::unsupported, "order is \"F\"", R"({"zarr_format": 2, "order": "F"})");
    expect_refused(ErrorCode::unsupported, "zarr_format is 3", R"({"zarr_format": 3})");
    expect_refused(ErrorCode::unsupported, "dimension_separator is \"/\"",
                   zarray("[1]", "[1]", type + R"("dimension_separator": "/")"));
    for (const std::string dtype : {"\">f4\"", "\"<c8\"", "\"|V3\"", "[[\"a\",\"<f4\"]]", "null"}) {
        expect_refused(ErrorCode::unsupported, "dtype is " + dtype,
                       zarray("[1]", "[1]", "\"dtype\": " + dtype));
    }
}

TEST(Zarr, refuses_shapes_that_make_no_sense) {
    expect_refused(ErrorCode::corrupt, "is not a JSON object", "[]");
    expect_refused(ErrorCode::corrupt, "is not a JSON object", "{\"shape\": [1");
    for (const std::string list : {"1", "[-1]", "[1.5]", "[\"1\"]", "[9223372036854775808]"}) {
        expect_refused(ErrorCode::corrupt, "shape is not a list of sizes", zarray(list, "[1]"));
        expect_refused(ErrorCode::corrupt, "chunks is not a list of sizes", zarray("[1]", list));
    }
    expect_refused(ErrorCode::corrupt, "shape [1] and chunks [1, 1] have different numbers of axes",
                   zarray("[1]", "[1, 1]"));
    expect_refused(ErrorCode::corrupt, "chunks [0] cannot tile shape [1]", zarray("[1]", "[0]"));
    expect_refused(ErrorCode::unsupported, "more than 8 axes",
                   zarray("[1,1,1,1,1,1,1,1,1]", "[1,1,1,1,1,1,1,1,1]"));
    expect_refused(ErrorCode::corrupt, "the shape in .zarray",
                   zarray("[4611686018427387904, 4]", "[1, 1]"));
    expect_refused(ErrorCode::corrupt, "the chunks in .zarray",
                   zarray("[1, 1]", "[4611686018427387904, 4]"));
    expect_refused(ErrorCode::corrupt, "bytes of a chunk", zarray("[1]", "[9223372036854775807]"));
}

TEST(Zarr, refuses_copies_without_hidden_files) {
    const Scratch scratch;
    write_edged(scratch, "w");
    write_edged(scratch, "x");
    fs::remove(scratch.path() / "w" / ".zarray");
    expect_error(ErrorCode::not_found, "w has chunk files but no .zarray",
                 [&] { read_zarr(scratch); });
    const Scratch bare;
    bare.file("metadata.json", R"({"sharded_backend": "zarr"})");
    expect_error(ErrorCode::not_found,
                 "has no directory with a model tensor's .zarray; copy it again, hidden files too",
                 [&] { read_zarr(bare); });
}

TEST(Zarr, refuses_two_keys_for_one_tensor) {
    const Scratch scratch;
    write_edged(scratch, "w");
    write_edged(scratch, "module.w");
    expect_error(ErrorCode::corrupt, "two keys name tensor w", [&] { read_zarr(scratch); });
}

TEST(Zarr, reads_a_real_checkpoint) {
    const Location location = locate_zarr(fixture(kReal) / "source");
    const Catalogue got = read_catalogue(location);
    EXPECT_EQ(got.notes,
              (std::vector<std::string>{
                  "Megatron zarr checkpoint, iteration 10, 9 arrays in 31 chunk files"}));
    EXPECT_EQ(got.facts.at("iteration"), 10);
    EXPECT_EQ(got.claims.at("hidden_size"), "32");
    const auto at = std::find_if(got.tensors.begin(), got.tensors.end(), [](const Tensor& t) {
        return t.name == "decoder.layers.mlp.linear_fc1.weight";
    });
    ASSERT_NE(at, got.tensors.end());
    EXPECT_EQ(at->shape, (std::vector<Index>{2, 80, 32}));
    std::vector<std::byte> gate;
    for (const auto& piece : at->pieces) {
        if (piece.patch.axes[0].lo == 1 && piece.patch.axes[1].lo < 40) {
            const auto part = elements(location.directory / got.files.at(piece.file).path,
                                       piece.base, piece.patch, at->dtype);
            gate.insert(gate.end(), part.begin(), part.end());
        }
    }
    EXPECT_EQ(gate, expected_bytes(kReal, "model.layers.1.mlp.gate_proj.weight"));
}

}  // namespace
}  // namespace shardweld::formats

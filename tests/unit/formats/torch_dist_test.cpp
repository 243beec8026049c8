#include <algorithm>
#include <set>

#include "catalogue/catalogue.hpp"
#include "core/codec.hpp"
#include "formats/format.hpp"

#include "expected.hpp"
#include "fsdp_builder.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using catalogue::Piece;
using catalogue::Tensor;

constexpr const char* kLlama = "llama-tp2-optim-torchdist-bf16";

Location locate_dist(const fs::path& directory) {
    JobInput request;
    request.directory = directory;
    return locate(request);
}

const Tensor& tensor_in(const Catalogue& catalogue, const std::string& name) {
    const auto found = std::find_if(catalogue.tensors.begin(), catalogue.tensors.end(),
                                    [&](const Tensor& t) { return t.name == name; });
    if (found == catalogue.tensors.end()) {
        throw Error(ErrorCode::internal, "no tensor " + name);
    }
    return *found;
}

std::vector<std::byte> bytes_of(const Location& location, const Catalogue& catalogue,
                                const Tensor& t, const Piece& piece) {
    return elements(location.directory / catalogue.files.at(piece.file).path, piece.base,
                    piece.patch, t.dtype);
}

TEST(TorchDist, describes_a_checkpoint_without_its_optimizer) {
    const Location location = locate_dist(fixture(kLlama));
    const Catalogue got = read_catalogue(location);
    EXPECT_EQ(got.format, "megatron torch_dist");
    EXPECT_EQ(got.dialect, "megatron_core");
    EXPECT_EQ(
        got.notes,
        (std::vector<std::string>{"Megatron torch_dist checkpoint, iteration 10, 8 shard files"}));
    EXPECT_EQ(got.facts, (std::map<std::string, Index>{{"ep", 1},
                                                       {"etp", 2},
                                                       {"iteration", 10},
                                                       {"pp", 1},
                                                       {"t", 1},
                                                       {"te", 1},
                                                       {"tp", 2},
                                                       {"version", 3}}));
    std::vector<std::string> names;
    for (const Tensor& t : got.tensors) {
        names.push_back(t.name);
    }
    EXPECT_EQ(
        names,
        (std::vector<std::string>{
            "decoder.final_layernorm.weight", "decoder.layers.mlp.linear_fc1.layer_norm_weight",
            "decoder.layers.mlp.linear_fc1.weight", "decoder.layers.mlp.linear_fc2.weight",
            "decoder.layers.self_attention.linear_proj.weight",
            "decoder.layers.self_attention.linear_qkv.layer_norm_weight",
            "decoder.layers.self_attention.linear_qkv.weight", "embedding.word_embeddings.weight",
            "output_layer.weight"}));
    EXPECT_EQ(got.claims.at("hidden_size"), "32");
    std::map<std::string, Index> rows;
    for (const auto& row : got.ignored) {
        rows[row.pattern] = row.count;
        EXPECT_GT(row.bytes, 0U);
    }
    EXPECT_EQ(rows, (std::map<std::string, Index>{
                        {"*._extra_state*", 8}, {"optimizer*", 27}, {"rng_state*", 2}}));
    for (const auto& file : got.files) {
        EXPECT_EQ(file.size, fs::file_size(location.directory / file.path));
    }
}

TEST(TorchDist, tells_of_shard_files_that_its_index_does_not_name) {
    const Scratch scratch;
    scratch.copy(fixture(kLlama));
    const Location location = locate_dist(scratch.path());
    EXPECT_TRUE(read_catalogue(location).warnings.empty());
    fs::copy(location.directory / "__1_1.distcp", location.directory / "__9_0.distcp");
    scratch.file((location.directory / "__8_0.distcp").lexically_relative(scratch.path()).string());
    const Catalogue got = read_catalogue(locate_dist(scratch.path()));
    ASSERT_EQ(got.warnings.count("unreferenced_files"), 1U);
    EXPECT_TRUE(got.warnings.at("unreferenced_files").starts_with("1 shard file with "));
    EXPECT_NE(got.warnings.at("unreferenced_files").find(": __9_0.distcp; "), std::string::npos);
    const auto row = std::find_if(got.ignored.begin(), got.ignored.end(),
                                  [](const auto& one) { return one.pattern == "*.distcp"; });
    ASSERT_NE(row, got.ignored.end());
    EXPECT_EQ(row->bytes, fs::file_size(location.directory / "__1_1.distcp"));
}

TEST(TorchDist, finds_the_elements_of_stacked_layers) {
    const Location location = locate_dist(fixture(kLlama));
    const Catalogue got = read_catalogue(location);
    const Tensor& norm = tensor_in(got, "decoder.layers.mlp.linear_fc1.layer_norm_weight");
    EXPECT_EQ(norm.shape, (std::vector<Index>{2, 32}));
    ASSERT_EQ(norm.pieces.size(), 2U);
    for (std::size_t layer = 0; layer < 2; ++layer) {
        const Piece& piece = norm.pieces[layer];
        EXPECT_TRUE(piece.located);
        EXPECT_EQ(layout::to_text(piece.patch),
                  layer == 0 ? "0 + [0,1)*32 [0,32)*1" : "0 + [1,2)*32 [0,32)*1");
        EXPECT_EQ(bytes_of(location, got, norm, piece),
                  expected_bytes(kLlama, "model.layers." + std::to_string(layer) +
                                             ".post_attention_layernorm.weight"));
    }
    // Gate and up rows of both ranks are four chunks per layer.
    const Tensor& fc1 = tensor_in(got, "decoder.layers.mlp.linear_fc1.weight");
    EXPECT_EQ(fc1.shape, (std::vector<Index>{2, 96, 32}));
    EXPECT_EQ(fc1.pieces.size(), 8U);
    std::vector<std::byte> gate;
    for (const Piece& piece : fc1.pieces) {
        if (piece.patch.axes[0].lo == 1 && piece.patch.axes[1].lo < 48) {
            const auto part = bytes_of(location, got, fc1, piece);
            gate.insert(gate.end(), part.begin(), part.end());
        }
    }
    EXPECT_EQ(gate, expected_bytes(kLlama, "model.layers.1.mlp.gate_proj.weight"));
}

TEST(TorchDist, reads_verl_with_its_own_claims) {
    const std::string name = "verl-value-llama-tp2-torchdist-bf16";
    const Location location = locate_dist(fixture(name));
    const Catalogue got = read_catalogue(location);
    EXPECT_EQ(got.claims.at("num_query_groups"), "4");
    EXPECT_EQ(got.claims.at("add_bias_linear"), "false");
    EXPECT_EQ(got.facts.at("tp"), 2);
    const Tensor& head = tensor_in(got, "output_layer.weight");
    EXPECT_EQ(head.shape.at(0), 1);
    ASSERT_EQ(head.pieces.size(), 1U);
    EXPECT_EQ(bytes_of(location, got, head, head.pieces[0]), expected_bytes(name, "score.weight"));
}

TEST(TorchDist, reads_the_common_state_among_the_shards) {
    const Catalogue got =
        read_catalogue(locate_dist(fixture("qwen2-tied-pp2-vpp2-core019-torchdist-bf16")));
    EXPECT_EQ(got.facts.at("iteration"), 10);
    EXPECT_EQ(got.facts.at("pp"), 2);
    EXPECT_EQ(got.facts.at("vpp"), 2);
    EXPECT_EQ(got.facts.count("args"), 0U);
    EXPECT_EQ(got.claims.at("num_layers"), "4");
    EXPECT_EQ(got.inert_globals.count("megatron.core.enums ModelType"), 1U);
}

TEST(TorchDist, resolves_alike_when_files_are_shared_out) {
    const Location location = locate_dist(fixture("verl-qwen3-tp2-pp2-torchdist-bf16"));
    const Format& format = format_of(location);
    EXPECT_EQ(
        format.scan_list(location),
        (std::vector<std::string>{".metadata", "common.pt", "../../transformer_config.json"}));
    std::vector<Scan> scans;
    for (const std::string& file : format.scan_list(location)) {
        scans.push_back(format.scan(location, file));
    }
    Catalogue got = combine(location, std::move(scans));
    const auto files = resolve_list(got);
    EXPECT_EQ(files.size(), got.files.size());
    std::vector<Resolution> resolutions;
    for (std::size_t rank = 0; rank < 3; ++rank) {
        std::vector<std::uint32_t> mine;
        for (std::size_t i = rank; i < files.size(); i += 3) {
            mine.push_back(files[i]);
        }
        std::reverse(mine.begin(), mine.end());
        ByteWriter out;
        out.put(format.resolve(location, got, mine, [] {}));
        const auto bytes = out.take();
        ByteReader in(bytes);
        resolutions.push_back(in.get<Resolution>());
    }
    auto incomplete = resolutions;
    incomplete.pop_back();
    Catalogue open = got;
    expect_error(ErrorCode::internal, "no rank located a piece of",
                 [&] { apply_resolutions(open, incomplete); });
    apply_resolutions(got, resolutions);
    EXPECT_TRUE(resolve_list(got).empty());
    ByteWriter a;
    a.put(got);
    ByteWriter b;
    b.put(read_catalogue(location));
    EXPECT_EQ(a.take(), b.take());
}

TEST(TorchDist, names_all_missing_files_at_once) {
    const Scratch scratch;
    scratch.copy(fixture(kLlama) / "source");
    fs::remove(scratch.path() / "iter_0000010" / "__1_0.distcp");
    fs::remove(scratch.path() / "iter_0000010" / "__3_1.distcp");
    expect_error(ErrorCode::not_found, ": __1_0.distcp, __3_1.distcp; copy the files of all ranks",
                 [&] { read_catalogue(locate_dist(scratch.path())); });
}

TEST(TorchDist, names_the_file_that_is_cut_short) {
    const Scratch scratch;
    scratch.copy(fixture(kLlama) / "source");
    const fs::path file = scratch.path() / "iter_0000010" / "__0_0.distcp";
    fs::resize_file(file, 5000);
    expect_error(ErrorCode::corrupt, "but the file has 5000 bytes",
                 [&] { read_catalogue(locate_dist(scratch.path())); });
    expect_error(ErrorCode::corrupt, "; file __0_0.distcp]",
                 [&] { read_catalogue(locate_dist(scratch.path())); });
}

TEST(TorchDist, refuses_a_shard_file_of_another_rank) {
    const Scratch scratch;
    scratch.copy(fixture(kLlama) / "source");
    const fs::path iteration = scratch.path() / "iter_0000010";
    fs::rename(iteration / "__0_0.distcp", iteration / "x");
    fs::rename(iteration / "__1_0.distcp", iteration / "__0_0.distcp");
    fs::rename(iteration / "x", iteration / "__1_0.distcp");
    const auto [code, text] = error_of([&] { read_catalogue(locate_dist(scratch.path())); });
    EXPECT_TRUE(code == ErrorCode::corrupt || code == ErrorCode::mismatch) << text;
}

TEST(TorchDist, does_without_common_pt) {
    const Scratch scratch;
    scratch.copy(fixture(kLlama) / "source");
    fs::remove(scratch.path() / "iter_0000010" / "common.pt");
    const Catalogue got = read_catalogue(locate_dist(scratch.path()));
    EXPECT_TRUE(got.claims.empty());
    EXPECT_EQ(got.facts.count("tp"), 0U);
    // Neither metadata.json nor common.pt: the keys are Megatron's.
    fs::remove(scratch.path() / "iter_0000010" / "metadata.json");
    EXPECT_EQ(read_catalogue(locate_dist(scratch.path())).tensors.size(), 9U);
}

TEST(TorchDist, refuses_weights_that_lie_beside_the_model) {
    const Scratch scratch;
    scratch.copy(fixture(kLlama) / "source");
    const auto put = [&](const std::string& key) {
        const std::string weight = test::fsdp::local_tensor("0", {4});
        scratch.file(
            "iter_0000010/common.pt",
            test::torch_file(test::fsdp::dict({{"args", test::fsdp::dict({})},
                                               {key, test::fsdp::dict({{"weight", weight}})}}),
                             {{"0", std::string(16, 'x')}}));
    };
    put("head");
    expect_error(ErrorCode::unsupported, "tensor head.weight lies beside the model's dictionary",
                 [&] { read_catalogue(locate_dist(scratch.path())); });
    put("optimizer");
    EXPECT_EQ(read_catalogue(locate_dist(scratch.path())).tensors.size(), 9U);
}

}  // namespace
}  // namespace shardweld::formats

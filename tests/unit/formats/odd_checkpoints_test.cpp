// Small checkpoints in forms that are rare or wrong; tests/data/megatron_odd/make.py writes them.

#include <algorithm>
#include <cstring>
#include <random>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"
#include "io/whole_file.hpp"

#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using catalogue::Shard;
using catalogue::StatedConfig;

Location locate_odd(const std::string& name) {
    JobInput request;
    request.directory = fs::path(SHARDWELD_TEST_DATA) / "megatron_odd" / name;
    return locate(request);
}

Catalogue read_odd(const std::string& name) {
    return read_catalogue(locate_odd(name));
}

std::vector<float> floats(const std::vector<std::byte>& bytes, DType dtype) {
    std::vector<float> values;
    for (std::size_t i = 0; i < bytes.size(); i += size_of(dtype)) {
        std::uint32_t bits = 0;
        if (dtype == DType::bf16) {
            std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, bytes.data() + i, 2);
        } else {
            std::memcpy(&bits, bytes.data() + i, 4);
        }
        float value = 0;
        std::memcpy(&value, &bits, sizeof value);
        values.push_back(value);
    }
    return values;
}

TEST(OddLegacy, flattens_names_of_before_megatron_core) {
    const Location location = locate_odd("nested");
    const Catalogue got = read_catalogue(location);
    std::vector<std::string> names;
    for (const Shard& s : got.shards) {
        if (s.at.tp == 1) {
            names.push_back(s.name);
        }
    }
    EXPECT_EQ(names, (std::vector<std::string>{
                         "language_model.embedding.word_embeddings.weight",
                         "language_model.encoder.layers.0.self_attention.query_key_value.weight",
                         "language_model.encoder.layers.1.self_attention.query_key_value.weight",
                         "language_model.encoder.final_layernorm.weight"}));
    EXPECT_EQ(got.facts.at("version"), 0);
    EXPECT_EQ(got.facts.at("etp"), 2);
    EXPECT_EQ(got.claims, (StatedConfig{{"bf16", "false"},
                                        {"hidden_size", "2"},
                                        {"lr", "0.00015"},
                                        {"name", "old"},
                                        {"num_layers", "2"},
                                        {"pipeline_model_parallel_size", "1"},
                                        {"tensor_model_parallel_size", "2"}}));
    ASSERT_EQ(got.ignored.size(), 1U);
    EXPECT_EQ(got.ignored[0].pattern, "optimizer");
    EXPECT_EQ(got.ignored[0].count, 2);
    EXPECT_EQ(got.ignored[0].bytes, 8000U);
    const Shard& qkv = got.shards.at(6);
    EXPECT_EQ(floats(elements(location.directory / got.files.at(1).path, qkv.piece.base,
                              qkv.piece.patch, qkv.dtype),
                     qkv.dtype),
              (std::vector<float>{110, 111, 112, 113, 114, 115}));
}

TEST(OddLegacy, honours_views_and_leaves_aside_what_is_no_tensor) {
    const Location location = locate_odd("views");
    const Catalogue got = read_catalogue(location);
    ASSERT_EQ(got.shards.size(), 3U);
    const auto values = [&](const Shard& s) {
        return floats(elements(location.directory / got.files.at(0).path, s.piece.base,
                               s.piece.patch, s.dtype),
                      s.dtype);
    };
    EXPECT_EQ(got.shards[0].name, "decoder.layers.0.a");
    EXPECT_EQ(values(got.shards[0]), (std::vector<float>{30, 31, 32, 33, 34, 35}));
    EXPECT_EQ(got.shards[1].shape, (std::vector<Index>{5, 4}));
    EXPECT_EQ(values(got.shards[1]), (std::vector<float>{0,  5,  10, 15, 1,  6,  11, 16, 2,  7,
                                                         12, 17, 3,  8,  13, 18, 4,  9,  14, 19}));
    EXPECT_EQ(got.shards[2].shape, std::vector<Index>{});
    EXPECT_EQ(values(got.shards[2]), std::vector<float>{7});
    EXPECT_EQ(got.shards[0].piece.base, got.shards[1].piece.base);
    EXPECT_EQ(got.shards[0].piece.storage_bytes, 80U);
    std::map<std::string, std::string> rows;
    for (const auto& row : got.ignored) {
        rows[row.pattern] = row.reason;
    }
    EXPECT_EQ(rows, (std::map<std::string, std::string>{
                        {"(storages)", "no tensor of the model lies in these bytes"},
                        {"*._extra_state", "Transformer Engine state"},
                        {"decoder.empty", "empty tensor"},
                        {"decoder.layers.*.count", "not a tensor"},
                        {"decoder.layers.*.none", "not a tensor"},
                        {"something", "training state"}}));
    EXPECT_EQ(got.facts.at("version"), 3);
}

TEST(OddLegacy, refuses_models_that_are_damaged) {
    const std::map<std::string, std::string> cases = {
        {"loop", "its model is nested too deeply at again.again."},
        {"bush", "its model refers to itself"},
        {"clash", "the name occurs twice [tensor w"},
        {"no_model", "holds no model: its keys are state_dict, expected `model`"},
        {"gap", "without a gap; its keys are model0, model2"},
        {"list", "does not hold a dictionary"},
    };
    for (const auto& [name, text] : cases) {
        expect_error(ErrorCode::corrupt, text, [&, n = name] { read_odd(n); });
        expect_error(ErrorCode::corrupt, "mp_rank_00/model_optim_rng.pt",
                     [&, n = name] { read_odd(n); });
    }
}

TEST(OddLegacy, refuses_what_it_cannot_undo_or_mix) {
    expect_error(ErrorCode::unsupported, "args.moe_mlp_glu_interleave_size is 32",
                 [] { read_odd("interleaved"); });
    expect_error(ErrorCode::mismatch,
                 "iteration is 10 in mp_rank_00/model_optim_rng.pt but 11 in "
                 "mp_rank_01/model_optim_rng.pt",
                 [] { read_odd("two_saves"); });
}

TEST(OddDcp, strips_wrappers_from_keys_in_both_serialisations) {
    for (const std::string name : {"dcp", "dcp_safetensors"}) {
        const Location location = locate_odd(name);
        const Catalogue got = read_catalogue(location);
        ASSERT_EQ(got.tensors.size(), 2U) << name;
        EXPECT_EQ(got.tensors[0].name, "decoder.final_layernorm.weight");
        EXPECT_EQ(got.tensors[1].name, "decoder.layers.0.mlp.linear_fc1.weight");
        const std::vector<std::vector<float>> wanted = {{0, 1, 2},
                                                        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
        for (std::size_t t = 0; t < 2; ++t) {
            const auto& tensor = got.tensors[t];
            ASSERT_EQ(tensor.pieces.size(), 1U);
            EXPECT_EQ(floats(elements(location.directory / got.files.at(0).path,
                                      tensor.pieces[0].base, tensor.pieces[0].patch, tensor.dtype),
                             tensor.dtype),
                      wanted[t]);
        }
    }
}

TEST(OddDcp, refuses_two_keys_for_one_tensor_and_saves_without_a_model) {
    expect_error(ErrorCode::corrupt, "two keys name tensor decoder.final_layernorm.weight",
                 [] { read_odd("dcp_clash"); });
    expect_error(ErrorCode::not_found, "holds only optimizer state and no weights: ", [] {
        read_odd("dcp_optimizer_only");
    });
}

// The index and its shard disagree: another shape, dtype or number of chunks than the file has.
TEST(OddDcp, compares_index_and_shards) {
    const Location location = locate_odd("dcp");
    const Format& format = format_of(location);
    const Catalogue got = format.combine(location, {format.scan(location, ".metadata")});
    const std::vector<std::uint32_t> files = {0};
    Catalogue other = got;
    other.tensors[0].dtype = DType::bf16;
    expect_error(ErrorCode::mismatch, "is F32 in the file but BF16 in .metadata",
                 [&] { static_cast<void>(format.resolve(location, other, files, [] {})); });
    other = got;
    other.tensors[1].pieces[0].patch = layout::dense_shape(std::vector<Index>{3, 4});
    expect_error(ErrorCode::mismatch, "is [4, 3] in the file but [3, 4] in .metadata",
                 [&] { static_cast<void>(format.resolve(location, other, files, [] {})); });
    // Axes of extent one make no difference.
    other.tensors[1].pieces[0].patch = layout::dense_shape(std::vector<Index>{1, 4, 1, 3, 1});
    EXPECT_EQ(layout::to_text(format.resolve(location, other, files, [] {}).pieces[1].patch),
              "0 + [0,1)*12 [0,4)*3 [0,1)*3 [0,3)*1 [0,1)*1");
    const Location single = locate_odd("dcp_safetensors");
    Catalogue twice = format.combine(single, {format.scan(single, ".metadata")});
    twice.tensors[0].pieces.push_back(twice.tensors[0].pieces[0]);
    expect_error(ErrorCode::corrupt, "torch keeps only one chunk of a tensor",
                 [&] { static_cast<void>(format.resolve(single, twice, files, [] {})); });
}

// Damaged bytes anywhere give a catalogue whose pieces lie inside their files, or an Error; nothing
// else.
TEST(OddCheckpoints, survive_random_damage) {
    constexpr unsigned kSeed = 20260301;
    std::mt19937 random(kSeed);
    int n_refused = 0;
    for (const std::string name :
         {"nested/mp_rank_00/model_optim_rng.pt", "views/mp_rank_00/model_optim_rng.pt",
          "dcp/.metadata", "dcp/__0_0.distcp", "dcp_safetensors/__0_0.distcp"}) {
        const Scratch scratch;
        const std::string root = name.substr(0, name.find('/'));
        scratch.copy(fs::path(SHARDWELD_TEST_DATA) / "megatron_odd" / root, root);
        const std::string whole = io::read_text(scratch.path() / name);
        for (int round = 0; round < 150; ++round) {
            std::string damaged =
                whole.substr(0, round % 5 == 0 ? random() % whole.size() : whole.size());
            for (unsigned i = 0; i < 1 + random() % 4 && !damaged.empty(); ++i) {
                damaged[random() % damaged.size()] = static_cast<char>(random());
            }
            scratch.file(name, damaged);
            try {
                JobInput request;
                request.directory = scratch.path() / root;
                const Catalogue got = read_catalogue(locate(request));
                for (const auto& tensor : got.tensors) {
                    for (const auto& piece : tensor.pieces) {
                        EXPECT_LE(piece.base + piece.storage_bytes, got.files.at(piece.file).size);
                    }
                }
                for (const Shard& s : got.shards) {
                    EXPECT_LE(s.piece.base + s.piece.storage_bytes, got.files.at(s.piece.file).size)
                        << name << " seed " << kSeed << " round " << round;
                }
            } catch (const Error& error) {
                EXPECT_NE(error.code(), ErrorCode::internal) << error.full_text();
                ++n_refused;
            }
        }
    }
    EXPECT_GT(n_refused, 100);
}

}  // namespace
}  // namespace shardweld::formats

#include "formats/megatron/args.hpp"

#include <span>

#include "scratch.hpp"
#include "torch_builder.hpp"

namespace shardweld::formats::megatron {
namespace {

using catalogue::StatedConfig;

TEST(Args, of_json_have_one_spelling) {
    EXPECT_EQ(claims_of_json(R"({"a": 1, "b": -2, "c": 1e-06, "d": 10000.0, "e": true, "f": false,
                                 "g": "text", "h": null, "i": [1], "j": {"k": 1}, "l": 0.1,
                                 "m": "True", "n": "None"})"),
              (StatedConfig{{"a", "1"},
                            {"b", "-2"},
                            {"c", "1e-06"},
                            {"d", "10000"},
                            {"e", "true"},
                            {"f", "false"},
                            {"g", "text"},
                            {"i", "[1]"},
                            {"j", R"({"k":1})"},
                            {"l", "0.1"},
                            {"m", "true"}}));
    expect_error(ErrorCode::corrupt, "is not a JSON object", [] { claims_of_json("[1]"); });
    expect_error(ErrorCode::corrupt, "is not a JSON object", [] { claims_of_json("{\"a\": "); });
}

TEST(Args, of_a_run_config_are_its_models) {
    EXPECT_EQ(claims_of_run_config("train:\n  num_layers: 9\nmodel:\n  num_layers: 4\n"
                                   "  layernorm_epsilon: 1.0e-06  # small\n  qk_clip: null\n"
                                   "  rotary_interleaved: True\n  params_dtype:\n    _target_: x\n"
                                   "  rotary_base:\n  - 10000\n  - 1000000\n  name: 'a: b'\n"
                                   "tokenizer:\n  tokenizer_type: HuggingFaceTokenizer\n"),
              (StatedConfig{{"layernorm_epsilon", "1e-06"},
                            {"name", "a: b"},
                            {"num_layers", "4"},
                            {"rotary_base", "[10000, 1000000]"},
                            {"rotary_interleaved", "true"},
                            {"tokenizer_type", "HuggingFaceTokenizer"}}));
}

TEST(Args, of_different_saves_do_not_agree) {
    const StatedConfig a = {{"num_layers", "4"}, {"seed", "1"}};
    require_agreement(a, "a.pt", {{"num_layers", "4"}, {"seed", "1"}}, "b.pt");
    expect_error(ErrorCode::mismatch, "args.seed is 1 in a.pt but 2 in b.pt", [&] {
        require_agreement(a, "a.pt", {{"num_layers", "4"}, {"seed", "2"}}, "b.pt");
    });
    expect_error(ErrorCode::mismatch, "args.num_layers is 4 in a.pt but (none) in b.pt",
                 [&] { require_agreement(a, "a.pt", {}, "b.pt"); });
    require_agreement(a, "a.pt", {{"num_layers", "4"}, {"more", "1"}}, "b.pt");
    EXPECT_EQ(fingerprint_of(a), fingerprint_of({{"num_layers", "4"}, {"seed", "1"}}));
    EXPECT_NE(fingerprint_of(a), fingerprint_of({{"num_layers", "41"}, {"seed", ""}}));
}

TEST(Args, that_ranks_share_are_all_but_their_own) {
    const std::string text = "}(" + test::unicode("rank") + "K\x03" + test::unicode("start_time") +
                             "K\x04" + test::unicode("seed") + "K\x05" + test::unicode("load") +
                             "N" + test::unicode("q_lora_rank") + "K\x06" + test::unicode("freq") +
                             "](K\x01K\x02"
                             "eu";
    const Scratch scratch;
    scratch.file("a.pt", test::torch_file(text, {}));
    const auto input = io::InputFile::open(scratch.path() / "a.pt");
    const auto file = TorchFile::read(input);
    EXPECT_EQ(
        common_args(file.root(), ScalarReader(file, input)),
        (StatedConfig{{"freq", "[1, 2]"}, {"load", "None"}, {"q_lora_rank", "6"}, {"seed", "5"}}));
}

TEST(Args, with_interleaved_gates_are_refused) {
    refuse_unsupported({{"moe_mlp_glu_interleave_size", "0"}, {"num_layers", "32"}});
    refuse_unsupported({{"moe_mlp_glu_interleave_size", "false"}});
    expect_error(ErrorCode::unsupported,
                 "args.moe_mlp_glu_interleave_size is 32: gate and up rows are stored interleaved",
                 [] {
                     refuse_unsupported({{"moe_mlp_glu_interleave_size", "32"}});
                 });
    expect_error(ErrorCode::unsupported, "moe_shared_expert_glu_interleave_size", [] {
        refuse_unsupported({{"moe_shared_expert_glu_interleave_size", "8"}});
    });
}

TEST(Args, state_sizes) {
    EXPECT_EQ(stated_sizes({{"tensor_model_parallel_size", "4"},
                            {"virtual_pipeline_model_parallel_size", "2"},
                            {"other", "x"}}),
              (std::map<std::string, Index>{{"tp", 4}, {"vpp", 2}}));
    for (const char* value : {"0", "-1", "two", "99999999", "1.5", ""}) {
        expect_error(ErrorCode::corrupt, "expected a positive number", [&] {
            stated_sizes({{"pipeline_model_parallel_size", value}});
        });
    }
    EXPECT_EQ(number_claim({{"num_layers", "12"}}, "num_layers"), 12);
    EXPECT_EQ(number_claim({{"num_layers", "1.5"}}, "num_layers"), std::nullopt);
    EXPECT_EQ(number_claim({}, "num_layers"), std::nullopt);
}

}  // namespace
}  // namespace shardweld::formats::megatron

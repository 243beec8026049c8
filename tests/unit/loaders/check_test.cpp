// The rules of loaders: a directory that loads everywhere has no findings, and each fault one.
#include <fstream>
#include <functional>
#include <sstream>

#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

TEST(LoaderCheck, finds_nothing_in_what_loads) {
    for (const Directory& model : {plain_llama(), block_llama(), packed_llama()}) {
        for (const Loader loader :
             {Loader::transformers, Loader::vllm, Loader::sglang, Loader::tgi}) {
            EXPECT_EQ(rules_of(model, {loader, 2, 2}), Rules{}) << name_of(loader);
        }
    }
}

struct Fault {
    const char* what;
    std::function<Directory()> begin;
    std::function<void(Directory&)> harm;
    Rules for_transformers;
    Rules for_vllm;
    Index devices = 1;
};

class EachFault : public testing::TestWithParam<Fault> {};

TEST_P(EachFault, is_found_where_it_does_harm) {
    const Fault& fault = GetParam();
    Directory model = fault.begin();
    fault.harm(model);
    EXPECT_EQ(rules_of(model, {Loader::transformers, fault.devices, 1}), fault.for_transformers);
    EXPECT_EQ(rules_of(model, {Loader::vllm, fault.devices, 1}), fault.for_vllm);
}

const std::vector<Fault>& faults() {
    static const std::vector<Fault> all = {
        {"stale_weights",
         plain_llama,
         [](Directory& m) {
             m.index =
                 WeightIndex{"", {{"lm_head.weight", "model-00001-of-00002.safetensors"}}, true};
             m.weights.push_back({"model-00001-of-00002.safetensors", "", {}});
         },
         {"weights!"},
         {"weights!"}},
        {"no_config",
         plain_llama,
         [](Directory& m) { m.config_text.clear(); },
         {"config!"},
         {"config!"}},
        {"a_number_without_a_point",
         plain_llama,
         [](Directory& m) { m.config_text = with_field(m.config_text, R"("rms_norm_eps": 1)"); },
         {"types!"},
         {"types!"}},
        {"a_function_that_transformers_lacks",
         plain_llama,
         [](Directory& m) { m.config_text = with_field(m.config_text, R"("hidden_act": "swi")"); },
         {"types!"},
         {}},
        {"kinds_of_fewer_layers",
         plain_llama,
         [](Directory& m) {
             m.config_text = with_field(m.config_text, R"("layer_types": ["full_attention"])");
         },
         {"types!"},
         {"types!"}},
        {"a_refused_setting_of_generation",
         plain_llama,
         [](Directory& m) { m.generation_text = R"({"max_new_tokens": 0})"; },
         {"generation!"},
         {"generation!"}},
        {"a_tokenizer_that_is_cut",
         plain_llama,
         [](Directory& m) { m.tokenizer.fault = "tokenizer.json is not a JSON object"; },
         {"tokenizer!"},
         {"tokenizer!"}},
        {"no_class",
         plain_llama,
         [](Directory& m) { replace_in_config(m, "architectures", "classes"); },
         {"class"},
         {"class!"}},
        {"no_model_type",
         plain_llama,
         [](Directory& m) { replace_in_config(m, "model_type", "kind"); },
         {"model-type!"},
         {"model-type"}},
        {"code_that_is_missing",
         plain_llama,
         [](Directory& m) {
             m.config_text =
                 with_field(m.config_text, R"("auto_map": {"AutoModel": "modeling_mine.Mine"})");
             replace_in_config(m, R"("llama")", R"("mine")");
         },
         {"code!"},
         {"code!"}},
        {"code_that_is_there",
         plain_llama,
         [](Directory& m) {
             m.config_text =
                 with_field(m.config_text, R"("auto_map": {"AutoModel": "modeling_mine.Mine"})");
             m.files.insert("modeling_mine.py");
         },
         {"code"},
         {"code"}},
        {"no_tokenizer",
         plain_llama,
         [](Directory& m) {
             m.tokenizer.is_there = false;
             m.tokenizer.n_tokens.reset();
         },
         {"tokenizer"},
         {"tokenizer!"}},
        {"more_tokens_than_rows",
         plain_llama,
         [](Directory& m) { m.tokenizer.n_tokens = 41; },
         {"tokens!"},
         {"tokens!"}},
        {"no_template",
         plain_llama,
         [](Directory& m) { m.tokenizer.config_text.clear(); },
         {},
         {"template"}},
        {"template_of_its_own",
         plain_llama,
         [](Directory& m) {
             m.tokenizer.config_text.clear();
             m.files.insert("chat_template.jinja");
         },
         {},
         {}},
        {"template_of_a_processor_that_is_not_there",
         plain_llama,
         [](Directory& m) {
             m.tokenizer.config_text = R"({"chat_template": null})";
             m.files.insert("chat_template.json");
         },
         {"template"},
         {"template"}},
        {"another_end",
         plain_llama,
         [](Directory& m) {
             m.generation_text = R"({"eos_token_id": [1, 2]})";
             m.tokenizer.eos = "<end>";
             m.tokenizer.eos_number = 3;
         },
         {"end"},
         {"end"}},
        {"a_class_of_a_trainer",
         plain_llama,
         [](Directory& m) { replace_in_config(m, "LlamaForCausalLM", "FSDPLlamaForCausalLM"); },
         {"class"},
         {"class!"}},
        {"an_unknown_type",
         plain_llama,
         [](Directory& m) { replace_in_config(m, R"("llama")", R"("lama")"); },
         {"model-type!"},
         {"model-type!"}},
        {"an_unknown_form_of_rope",
         plain_llama,
         [](Directory& m) {
             m.config_text = with_field(
                 m.config_text, R"("rope_scaling": {"rope_type": "spiral", "factor": 2.0})");
         },
         {"rope!"},
         {"rope!"}},
        {"half_a_form_of_rope",
         plain_llama,
         [](Directory& m) {
             m.config_text = with_field(
                 m.config_text,
                 R"("rope_parameters": {"full": {"rope_type": "llama3", "factor": 8.0}})");
         },
         {"rope!", "rope!"},
         {"rope!", "rope!"}},
        {"names_of_an_adapter",
         plain_llama,
         [](Directory& m) {
             tensors_of(m)["base_model.model.model.norm.weight"] = {DType::bf16, {256}};
         },
         {"names!"},
         {"names!"}},
        {"no_generation_config",
         plain_llama,
         [](Directory& m) { m.generation_text.clear(); },
         {"generation"},
         {"generation"}},
        {"embedding_model",
         plain_llama,
         [](Directory& m) {
             m.generation_text.clear();
             m.tokenizer.config_text.clear();
             m.files.insert("modules.json");
         },
         {},
         {}},
        {"padded_vocabulary",
         plain_llama,
         [](Directory& m) { tensors_of(m)["model.embed_tokens.weight"].shape[0] = 64; },
         {"vocabulary!"},
         {"vocabulary!"}},
        {"no_head",
         plain_llama,
         [](Directory& m) { tensors_of(m).erase("lm_head.weight"); },
         {"head!"},
         {"head!"}},
        {"a_head_that_is_tied",
         plain_llama,
         [](Directory& m) {
             replace_in_config(m, R"("tie_word_embeddings": false)",
                               R"("tie_word_embeddings": true)");
         },
         {"head"},
         {"head"}},
        {"a_layer_less",
         plain_llama,
         [](Directory& m) {
             replace_in_config(m, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)");
         },
         {"layers!"},
         {"layers!"}},
        {"a_layer_more",
         plain_llama,
         [](Directory& m) {
             replace_in_config(m, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 1)");
         },
         {"layers"},
         {"layers"}},
        {"promised_prediction",
         plain_llama,
         [](Directory& m) {
             m.config_text = with_field(m.config_text, R"("num_nextn_predict_layers": 1)");
         },
         {"prediction"},
         {"prediction"}},
        {"heads_that_do_not_divide",
         plain_llama,
         [](Directory&) {},
         {},
         {"heads!", "heads!", "extents!"},
         3},
        {"blocks_that_are_cut", block_llama, [](Directory&) {}, {}, {"heads!", "extents!"}, 8},
        {"codes_without_a_config",
         block_llama,
         [](Directory& m) { m.config_text = kPlainConfig; },
         {"quantised!"},
         {"quantised!"}},
        {"a_config_without_codes",
         plain_llama,
         [](Directory& m) { m.config_text = block_llama().config_text; },
         {"quantised"},
         {"quantised!"}},
        {"codes_of_a_method_that_is_not_known",
         packed_llama,
         [](Directory& m) { replace_in_config(m, "compressed-tensors", "quilt"); },
         {"quantised!"},
         {"quantised"}},
        {"scales_of_another_loader",
         block_llama,
         [](Directory& m) {
             auto& tensors = tensors_of(m);
             auto scale = tensors.extract("model.layers.1.mlp.up_proj.weight_scale_inv");
             scale.key() = "model.layers.1.mlp.up_proj.weight_scale";
             tensors.insert(std::move(scale));
         },
         {"scales!"},
         {"scales!"}},
        {"codes_without_scales",
         packed_llama,
         [](Directory& m) { erase_ending(m, "1.mlp.down_proj.weight_scale"); },
         {"scales!"},
         {"scales!"}},
        {"scales_of_other_blocks",
         block_llama,
         [](Directory& m) {
             tensors_of(m)["model.layers.1.mlp.up_proj.weight_scale_inv"].shape = {2, 2};
         },
         {"blocks!"},
         {"blocks!"}},
        {"partial_blocks",
         block_llama,
         [](Directory& m) {
             tensors_of(m)["model.layers.0.self_attn.o_proj.weight"].shape = {192, 256};
         },
         {"blocks!"},
         {}},
        {"partial_blocks_that_are_joined",
         block_llama,
         [](Directory& m) {
             tensors_of(m)["model.layers.0.mlp.up_proj.weight"].shape = {448, 256};
         },
         {"blocks!"},
         {"extents!"}},
        {"no_status",
         packed_llama,
         [](Directory& m) { replace_in_config(m, "quantization_status", "status"); },
         {"status!"},
         {}},
        {"a_head_not_listed",
         packed_llama,
         [](Directory& m) { replace_in_config(m, R"(["lm_head"])", "[]"); },
         {"ignored!"},
         {}},
        {"a_quantised_layer_listed",
         packed_llama,
         [](Directory& m) {
             replace_in_config(m, R"(["lm_head"])", R"(["lm_head", "re:.*layers.1.mlp.*"])");
         },
         {"ignored!"},
         {"ignored!"}},
        {"half_of_a_joined_matrix",
         packed_llama,
         [](Directory& m) {
             erase_ending(m, "0.mlp.up_proj.weight_packed");
             erase_ending(m, "0.mlp.up_proj.weight_scale");
             tensors_of(m)["model.layers.0.mlp.up_proj.weight"] = {DType::bf16, {512, 256}};
             replace_in_config(m, R"(["lm_head"])", R"(["lm_head", "model.layers.0.mlp.up_proj"])");
         },
         {},
         {"fused!"}},
    };
    return all;
}

INSTANTIATE_TEST_SUITE_P(LoaderCheck, EachFault, testing::ValuesIn(faults()),
                         [](const auto& test) { return test.param.what; });

TEST(LoaderCheck, fewer_heads_of_keys_than_devices_are_repeated) {
    Directory model = plain_llama();
    EXPECT_EQ(rules_of(model, {Loader::vllm, 4, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 3}), Rules{"stages!"});
}

TEST(LoaderRules, are_those_that_the_document_lists) {
    std::ifstream page(std::string(SHARDWELD_TEST_DATA) + "/../../docs/using/serving.md");
    std::stringstream text;
    text << page.rdbuf();
    for (const RuleText& rule : loader_rules()) {
        std::string loaders;
        for (const Loader loader : rule.loaders) {
            loaders += (loaders.empty() ? "" : ", ") + std::string(name_of(loader));
        }
        const std::string row = "| `" + std::string(rule.name) + "` | " + std::string(rule.text) +
                                " | " + loaders + " | " + std::string(rule.source) + " |\n";
        EXPECT_NE(text.str().find(row), std::string::npos) << row;
    }
}

}  // namespace
}  // namespace shardweld::loaders

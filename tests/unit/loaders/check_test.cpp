// The rules of loaders: a directory that loads everywhere has no findings, and each fault one.
#include "shardweld/loaders/check.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>

#include <gtest/gtest.h>

#include "shardweld/core/error.hpp"

#include "support/error_text.hpp"

namespace shardweld::loaders {
namespace {

constexpr const char* kPlainConfig =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 40,
        "tie_word_embeddings": false})";

/// `config` with a field of JSON put in front of its others.
std::string with_field(std::string config, const std::string& field) {
    return config.insert(1, field + ", ");
}

std::map<std::string, StoredTensor>& tensors_of(Directory& model) {
    return model.weights.front().tensors;
}

Directory plain_llama() {
    Directory model;
    model.config_text = kPlainConfig;
    model.generation_text = "{}";
    model.weights = {{"model.safetensors", "", {}}};
    model.files = {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json",
                   "tokenizer_config.json"};
    model.tokenizer.is_there = true;
    model.tokenizer.n_tokens = 40;
    model.tokenizer.config_text = R"({"chat_template": "{{ x }}"})";
    tensors_of(model)["model.embed_tokens.weight"] = {DType::bf16, {40, 256}};
    tensors_of(model)["lm_head.weight"] = {DType::bf16, {40, 256}};
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const auto add = [&](const std::string& name, Index rows, Index columns) {
            tensors_of(model)[layer + name + ".weight"] = {DType::bf16, {rows, columns}};
        };
        add("self_attn.q_proj", 256, 256);
        add("self_attn.k_proj", 256, 256);
        add("self_attn.v_proj", 256, 256);
        add("self_attn.o_proj", 256, 256);
        add("mlp.gate_proj", 512, 256);
        add("mlp.up_proj", 512, 256);
        add("mlp.down_proj", 256, 512);
        tensors_of(model)[layer + std::string("input_layernorm.weight")] = {DType::bf16, {256}};
    }
    return model;
}

bool is_projection(const std::string& name) {
    return name.ends_with("_proj.weight");
}

/// The same with every projection in fp8, and a scale for each block of 128 x 128.
Directory block_llama() {
    Directory model = plain_llama();
    model.config_text = with_field(
        kPlainConfig,
        R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128],
           "modules_to_not_convert": ["lm_head", "model.embed_tokens"]})");
    Directory plain = plain_llama();
    for (auto& [name, tensor] : tensors_of(plain)) {
        if (is_projection(name)) {
            tensors_of(model)[name].dtype = DType::f8_e4m3;
            tensors_of(model)[name + "_scale_inv"] = {
                DType::f32, {(tensor.shape[0] + 127) / 128, (tensor.shape[1] + 127) / 128}};
        }
    }
    return model;
}

/// The same with weights of four bits, 128 to a scale, in words of 32 bits.
Directory packed_llama() {
    Directory model = plain_llama();
    model.config_text = with_field(
        kPlainConfig,
        R"("quantization_config": {"quant_method": "compressed-tensors", "quantization_status":
           "compressed", "ignore": ["lm_head"], "config_groups": {"group_0": {"weights":
           {"num_bits": 4, "strategy": "group", "group_size": 128}}}})");
    Directory plain = plain_llama();
    for (auto& [name, tensor] : tensors_of(plain)) {
        if (is_projection(name)) {
            tensors_of(model).erase(name);
            tensors_of(model)[name + "_packed"] = {DType::i32,
                                                   {tensor.shape[0], tensor.shape[1] / 8}};
            tensors_of(model)[name + "_scale"] = {DType::bf16,
                                                  {tensor.shape[0], tensor.shape[1] / 128}};
            tensors_of(model)[name + "_shape"] = {DType::i64, {2}};
        }
    }
    return model;
}

void replace_in_config(Directory& model, const std::string& from, const std::string& to) {
    const std::size_t at = model.config_text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    model.config_text.replace(at, from.size(), to);
}

/// "tokens!" of each finding, the mark for fatal ones; without what is said to be unchecked.
std::vector<std::string> rules_of(const Directory& model, const Request& request) {
    std::vector<std::string> rules;
    for (const Finding& finding : check(model, request)) {
        EXPECT_FALSE(finding.hint.empty()) << finding.rule;
        if (finding.rule != "limits") {
            rules.push_back(finding.rule + (finding.is_fatal ? "!" : ""));
        }
    }
    return rules;
}

using Rules = std::vector<std::string>;

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

void erase_ending(Directory& model, const std::string& ending) {
    std::erase_if(tensors_of(model),
                  [&](const auto& entry) { return entry.first.ends_with(ending); });
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

/// The tensors of a plain Llama are what its family has.
Directory of_family(Directory model) {
    model.family = "llama";
    Directory plain = plain_llama();
    for (const auto& [name, tensor] : tensors_of(plain)) {
        model.expected[name] = {tensor.shape, false, is_projection(name), {}, "layer.0.x"};
    }
    model.expected["model.embed_tokens.weight"].logical = "embed";
    model.expected["lm_head.weight"].logical = "head";
    return model;
}

TEST(LoaderCheck, holds_names_against_those_of_the_family) {
    const Request request{Loader::transformers, 1, 1};
    const std::string norm = "model.layers.1.input_layernorm.weight";
    for (const Directory& whole : {plain_llama(), block_llama(), packed_llama()}) {
        Directory model = of_family(whole);
        EXPECT_EQ(rules_of(model, request), Rules{});
        tensors_of(model)[norm].shape = {255};
        EXPECT_EQ(rules_of(model, request), Rules{"names!"});
        tensors_of(model).erase(norm);
        EXPECT_EQ(rules_of(model, request), Rules{"names!"});
        model.expected[norm].is_optional = true;
        EXPECT_EQ(rules_of(model, request), Rules{});
        tensors_of(model)["model.layers.1.mlp.gate.bias"] = {DType::bf16, {8}};
        EXPECT_EQ(rules_of(model, request), Rules{"names"});
        model.passes = {"*.bias"};
        EXPECT_EQ(rules_of(model, request), Rules{});
    }
    // Layers that config.json does not count.
    Directory further = of_family(plain_llama());
    replace_in_config(further, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 1)");
    std::erase_if(further.expected,
                  [](const auto& one) { return one.first.find("layers.1.") != std::string::npos; });
    EXPECT_EQ(rules_of(further, request), Rules{"names!"});
    // Other names altogether.
    Directory renamed = of_family(plain_llama());
    tensors_of(renamed).clear();
    tensors_of(renamed)["transformer.wte.weight"] = {DType::bf16, {40, 256}};
    tensors_of(renamed)["lm_head.weight"] = {DType::bf16, {40, 256}};
    EXPECT_EQ(rules_of(renamed, request), (Rules{"names!", "names"}));
    // transformers takes names without the base model's prefix.
    Directory bare = of_family(plain_llama());
    std::map<std::string, StoredTensor> names;
    for (const auto& [name, tensor] : tensors_of(bare)) {
        names[name.starts_with("model.") ? name.substr(6) : name] = tensor;
    }
    tensors_of(bare) = names;
    EXPECT_EQ(rules_of(bare, request), Rules{});
    EXPECT_EQ(rules_of(bare, {Loader::vllm, 1, 1}), (Rules{"names!", "names"}));
}

TEST(LoaderCheck, optional_tensors_are_there_together) {
    Directory model = of_family(plain_llama());
    for (const std::string layer : {"0", "1"}) {
        for (const std::string end : {"weight", "bias"}) {
            model.expected["model.layers." + layer + ".norm." + end] = {
                {256}, true, false, {}, "layer." + layer + ".norm_" + end};
        }
    }
    EXPECT_EQ(rules_of(model, {}), Rules{});
    const StoredTensor norm{DType::bf16, {256}};
    tensors_of(model)["model.layers.0.norm.weight"] = norm;
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});  // of the other layer, and the bias
    tensors_of(model)["model.layers.1.norm.weight"] = norm;
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});
    tensors_of(model)["model.layers.0.norm.bias"] = norm;
    tensors_of(model)["model.layers.1.norm.bias"] = norm;
    EXPECT_EQ(rules_of(model, {}), Rules{});
    // Numbers of one digit and of two.
    for (const std::string layer : {"9", "10", "11"}) {
        const std::string name = "model.layers." + layer + ".norm.gain";
        model.expected[name] = {{256}, true, false, {}, "layer." + layer + ".norm_gain"};
        tensors_of(model)[name] = norm;
    }
    tensors_of(model).erase("model.layers.9.norm.gain");
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});
}

TEST(LoaderCheck, a_config_of_which_a_family_makes_nothing_is_told) {
    Directory model = plain_llama();
    model.family = "llama";
    model.fault = "h = @hidden_size has no value";
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});
    model.fault = "d = @head_dim has no value";  // where a class's default may be meant
    EXPECT_EQ(rules_of(model, {}), Rules{"names"});
}

TEST(LoaderCheck, classification_models_have_a_row_for_each_label) {
    Directory model = plain_llama();
    replace_in_config(model, "LlamaForCausalLM", "LlamaForSequenceClassification");
    EXPECT_EQ(rules_of(model, {}), Rules{"classifier!"});
    tensors_of(model)["score.weight"] = {DType::bf16, {3, 256}};
    EXPECT_EQ(rules_of(model, {}), Rules{});
    model.config_text = with_field(model.config_text, R"("id2label": {"0": "a", "1": "b"})");
    EXPECT_EQ(rules_of(model, {}), Rules{"classifier!"});
}

/// A family that lets its tower pass.
Directory seeing_llama() {
    Directory model = of_family(plain_llama());
    replace_in_config(model, "LlamaForCausalLM", "LlavaForConditionalGeneration");
    model.config_text = with_field(model.config_text, R"("vision_config": {"depth": 2})");
    model.passes = {"visual.*"};
    model.needs = {"merger.norm.weight|merger.ln.weight"};
    for (const char* name : {"merger.norm.weight", "blocks.0.norm.weight", "blocks.0.norm.bias",
                             "blocks.1.norm.weight", "blocks.1.norm.bias"}) {
        tensors_of(model)[std::string("visual.") + name] = {DType::bf16, {4}};
    }
    return model;
}

TEST(LoaderCheck, towers_are_whole) {
    EXPECT_EQ(rules_of(seeing_llama(), {}), Rules{});
    for (const char* name : {"merger.norm.weight", "blocks.0.norm.bias", "blocks.1.norm.weight"}) {
        Directory model = seeing_llama();
        tensors_of(model).erase(std::string("visual.") + name);
        EXPECT_EQ(rules_of(model, {}), Rules{"parts!"}) << name;
    }
    Directory renamed = seeing_llama();
    tensors_of(renamed).erase("visual.merger.norm.weight");
    tensors_of(renamed)["visual.merger.ln.weight"] = {DType::bf16, {4}};
    EXPECT_EQ(rules_of(renamed, {}), Rules{});
    Directory shallow = seeing_llama();
    std::erase_if(tensors_of(shallow),
                  [](const auto& entry) { return entry.first.starts_with("visual.blocks.1."); });
    EXPECT_EQ(rules_of(shallow, {}), Rules{"parts!"});
    Directory blind = seeing_llama();
    std::erase_if(tensors_of(blind),
                  [](const auto& entry) { return entry.first.starts_with("visual."); });
    EXPECT_EQ(rules_of(blind, {}), Rules{"parts!"});
    // A class of text models loads no tower.
    replace_in_config(blind, "LlavaForConditionalGeneration", "LlamaForCausalLM");
    EXPECT_EQ(rules_of(blind, {}), Rules{});
}

TEST(LoaderCheck, layers_of_unknown_families_are_alike) {
    Directory model = plain_llama();
    for (const char* part : {"q_proj", "k_proj"}) {
        tensors_of(model)["model.layers.2.self_attn." + std::string(part) + ".weight"] = {
            DType::bf16, {256, 256}};
    }
    replace_in_config(model, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)");
    EXPECT_EQ(rules_of(model, {}), Rules{"parts!"});
}

TEST(LoaderCheck, says_what_it_does_not_check) {
    const auto limits = [](const Directory& model) {
        return std::ranges::count(check(model, {}), "limits", &Finding::rule);
    };
    EXPECT_EQ(limits(plain_llama()), 1);
    EXPECT_EQ(limits(of_family(plain_llama())), 0);
    EXPECT_EQ(limits(seeing_llama()), 0);
    Directory unknown_tower = seeing_llama();
    unknown_tower.needs.clear();
    EXPECT_EQ(limits(unknown_tower), 1);
}

TEST(LoaderCheck, each_loader_takes_its_own_files) {
    Directory model = plain_llama();
    model.weights.push_back({"consolidated.safetensors", "", {{"tok", {DType::bf16, {1}}}}});
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::sglang, 1, 1}), Rules{});
    model.weights.back() = {"other.safetensors", "", tensors_of(model)};
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::tgi, 1, 1}), Rules{"weights!"});
    model.weights.front().name = "model-00001-of-00001.safetensors";
    model.weights.pop_back();
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{});
}

TEST(LoaderCheck, only_rust_refuses_infinity) {
    Directory model = plain_llama();
    model.config_text = with_field(model.config_text, R"("limit": Infinity)");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::tgi, 1, 1}), Rules{"numbers!"});
    model.config_text = with_field(model.config_text, R"("scale": [NaN])");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"numbers"});
}

TEST(LoaderCheck, groups_have_encodings_of_their_own) {
    Directory model = packed_llama();
    replace_in_config(
        model, R"({"group_0": {"weights")",
        R"({"a": {"targets": ["re:.*k_proj"], "weights": {"num_bits": 8, "strategy": "channel"}},
            "group_0": {"targets": ["Linear"], "weights")");
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const std::string name = layer + std::string("self_attn.k_proj.weight");
        tensors_of(model)[name + "_packed"].shape = {256, 64};
        tensors_of(model)[name + "_scale"].shape = {256, 1};
    }
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{});
    tensors_of(model)["model.layers.0.self_attn.q_proj.weight_scale"].shape = {256, 1};
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
}

TEST(LoaderCheck, groups_have_each_quantised_layer) {
    Directory model = packed_llama();
    replace_in_config(model, R"({"weights")", R"({"targets": ["re:.*mlp.*"], "weights")");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"status!"});
    model = packed_llama();
    replace_in_config(model, R"("num_bits": 4, )", "");  // 8, then
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
    model = block_llama();
    replace_in_config(model, R"("quant_method": "fp8", )", "");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"quantised!"});
    model = block_llama();
    replace_in_config(model, R"("fp8")", R"("modelopt")");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"quantised!"});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"quantised"});
}

TEST(LoaderCheck, experts_are_quantised_together) {
    Directory model = plain_llama();
    model.config_text = block_llama().config_text;
    for (const char* name : {"model.layers.0.mlp.experts.0.up_proj.weight",
                             "model.layers.0.mlp.experts.1.up_proj.weight"}) {
        tensors_of(model)[name] = {DType::f8_e4m3, {128, 128}};
        tensors_of(model)[name + std::string("_scale_inv")] = {DType::f32, {1, 1}};
    }
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    tensors_of(model)["model.layers.0.mlp.experts.1.up_proj.weight"].dtype = DType::bf16;
    tensors_of(model).erase("model.layers.0.mlp.experts.1.up_proj.weight_scale_inv");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"experts!"});
}

TEST(LoaderCheck, packed_weights_say_their_shape_and_have_scales_for_groups) {
    Directory model = packed_llama();
    erase_ending(model, "0.mlp.up_proj.weight_shape");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
    model = packed_llama();
    tensors_of(model)["model.layers.0.mlp.up_proj.weight_scale"].shape = {512, 1};
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
}

GgufFile small_gguf() {
    GgufFile file{"model-q8_0.gguf", ""};
    file.texts = {{"general.architecture", "llama"},
                  {"tokenizer.ggml.model", "gpt2"},
                  {"tokenizer.chat_template", "{{ x }}"}};
    file.numbers = {{"llama.block_count", 2},          {"llama.context_length", 8},
                    {"llama.embedding_length", 64},    {"llama.feed_forward_length", 96},
                    {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2}};
    file.keys = {"llama.attention.layer_norm_rms_epsilon"};
    file.lengths = {{"tokenizer.ggml.tokens", 40}};
    file.tensors = {{"token_embd.weight", {40, 64}}, {"output_norm.weight", {64}}};
    for (const char* block : {"blk.0.", "blk.1."}) {
        const std::map<std::string, std::vector<Index>> parts = {
            {"attn_norm", {64}},    {"attn_q", {64, 64}},      {"attn_k", {32, 64}},
            {"attn_v", {32, 64}},   {"attn_output", {64, 64}}, {"ffn_norm", {64}},
            {"ffn_gate", {96, 64}}, {"ffn_up", {96, 64}},      {"ffn_down", {64, 96}}};
        for (const auto& [part, extents] : parts) {
            file.tensors[block + part + ".weight"] = extents;
        }
    }
    return file;
}

Rules gguf_rules_of(const GgufFile& file, const std::string& config = kPlainConfig) {
    Directory model = plain_llama();
    model.config_text = config;
    model.files.insert(file.name);
    model.gguf = {file};
    return rules_of(model, {Loader::llama_cpp, 1, 1});
}

TEST(LoaderCheck, llama_cpp_norms_the_routing_of_qwen3) {
    Directory model = plain_llama();
    replace_in_config(model, R"("model_type": "llama")", R"("model_type": "qwen3_moe")");
    EXPECT_EQ(gguf_rules_of(small_gguf(), model.config_text), Rules{"routing"});
    model.config_text = with_field(model.config_text, R"("norm_topk_prob": true)");
    EXPECT_EQ(gguf_rules_of(small_gguf(), model.config_text), Rules{});
}

TEST(LoaderCheck, llama_cpp_wants_a_gguf_file) {
    EXPECT_EQ(rules_of(plain_llama(), {Loader::llama_cpp, 1, 1}), Rules{"gguf!"});
    EXPECT_EQ(gguf_rules_of(small_gguf()), Rules{});
}

TEST(LoaderCheck, a_gguf_file_has_what_its_metadata_promises) {
    const std::vector<std::pair<std::function<void(GgufFile&)>, Rules>> harms = {
        {[](GgufFile& f) { f.texts.erase("tokenizer.chat_template"); }, {"gguf-tokens"}},
        {[](GgufFile& f) { f.lengths.clear(); }, {"gguf-tokens!"}},
        {[](GgufFile& f) { f.lengths["tokenizer.ggml.tokens"] = 39; }, {"gguf-tokens!"}},
        {[](GgufFile& f) { f.lengths["tokenizer.ggml.token_type"] = 39; }, {"gguf-tokens!"}},
        {[](GgufFile& f) { f.fault = "cut short"; }, {"gguf-header!"}},
        {[](GgufFile& f) { f.unknown = "a type of the future"; }, {"gguf-header"}},
        {[](GgufFile& f) { f.numbers["split.count"] = 2; }, {"gguf-header!"}},
        {[](GgufFile& f) { f.texts["general.architecture"] = "lama"; }, {"gguf-keys!"}},
        {[](GgufFile& f) { f.numbers.erase("llama.context_length"); }, {"gguf-keys!"}},
        {[](GgufFile& f) { f.tensors.erase("output_norm.weight"); }, {"gguf-tensors!"}},
        {[](GgufFile& f) { f.tensors.erase("blk.1.attn_norm.weight"); }, {"gguf-tensors!"}},
        {[](GgufFile& f) {
             f.tensors["token_embd.weight"] = {40, 32};
         },
         {"gguf-tensors!"}},
        {[](GgufFile& f) { f.numbers["llama.block_count"] = 3; }, {"gguf-tensors!"}},
        {[](GgufFile& f) { f.numbers["llama.block_count"] = 1; }, {"gguf-tensors!"}},
        {[](GgufFile& f) {
             f.tensors.erase("blk.0.attn_v.weight");
             f.tensors.erase("blk.1.attn_v.weight");
         },
         {"gguf-tensors!"}},
        {[](GgufFile& f) { f.texts["general.architecture"] = "clip"; }, {}},
        {[](GgufFile& f) {
             f.tensors.erase("blk.0.ffn_gate.weight");
             f.tensors.erase("blk.1.ffn_gate.weight");
         },
         {"gguf-tensors!"}},
        {[](GgufFile& f) { f.tensors["blk.0.attn_q_norm.weight"] = {16}; }, {"gguf-tensors!"}},
        {[](GgufFile& f) {
             f.tensors["blk.1.attn_k.weight"] = {64, 64};
         },
         {"gguf-tensors!"}},
        {[](GgufFile& f) { f.numbers["llama.feed_forward_length"] = 64; }, {"gguf-tensors!"}},
        {[](GgufFile& f) { f.numbers.erase("llama.attention.head_count_kv"); }, {"gguf-tensors!"}},
        {[](GgufFile& f) { f.numbers.erase("llama.attention.head_count"); }, {"gguf-keys!"}},
        {[](GgufFile& f) { f.keys.clear(); }, {"gguf-keys!"}},
        {[](GgufFile& f) { f.texts.erase("tokenizer.ggml.model"); }, {"gguf-tokens!"}},
        {[](GgufFile& f) { f.lengths["tokenizer.ggml.scores"] = 41; }, {"gguf-tokens"}},
    };
    for (std::size_t i = 0; i < harms.size(); ++i) {
        GgufFile file = small_gguf();
        harms[i].first(file);
        EXPECT_EQ(gguf_rules_of(file), harms[i].second) << i;
    }
}

TEST(LoaderCheck, fewer_heads_of_keys_than_devices_are_repeated) {
    Directory model = plain_llama();
    EXPECT_EQ(rules_of(model, {Loader::vllm, 4, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 3}), Rules{"stages!"});
}

TEST(LoaderCheck, a_config_of_another_kind_is_refused) {
    Directory model = plain_llama();
    for (const char* text : {"[]", "{", "1", "{\"architectures\": {}}"}) {
        model.config_text = text;
        const auto rules = rules_of(model, {});
        EXPECT_EQ(std::ranges::count(rules, "config!"), std::string(text).size() <= 2) << text;
    }
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

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

Directory plain_llama() {
    Directory model;
    model.config_text = kPlainConfig;
    model.files = {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json",
                   "chat_template.jinja"};
    model.has_tokenizer = true;
    model.n_tokens = 40;
    model.tensors["model.embed_tokens.weight"] = {DType::bf16, {40, 256}};
    model.tensors["lm_head.weight"] = {DType::bf16, {40, 256}};
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const auto add = [&](const std::string& name, Index rows, Index columns) {
            model.tensors[layer + name + ".weight"] = {DType::bf16, {rows, columns}};
        };
        add("self_attn.q_proj", 256, 256);
        add("self_attn.k_proj", 256, 256);
        add("self_attn.v_proj", 256, 256);
        add("self_attn.o_proj", 256, 256);
        add("mlp.gate_proj", 512, 256);
        add("mlp.up_proj", 512, 256);
        add("mlp.down_proj", 256, 512);
        model.tensors[layer + std::string("input_layernorm.weight")] = {DType::bf16, {256}};
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
    for (auto& [name, tensor] : plain_llama().tensors) {
        if (is_projection(name)) {
            model.tensors[name].dtype = DType::f8_e4m3;
            model.tensors[name + "_scale_inv"] = {
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
    for (auto& [name, tensor] : plain_llama().tensors) {
        if (is_projection(name)) {
            model.tensors.erase(name);
            model.tensors[name + "_packed"] = {DType::i32, {tensor.shape[0], tensor.shape[1] / 8}};
            model.tensors[name + "_scale"] = {DType::bf16,
                                              {tensor.shape[0], tensor.shape[1] / 128}};
            model.tensors[name + "_shape"] = {DType::i64, {2}};
        }
    }
    return model;
}

void replace_in_config(Directory& model, const std::string& from, const std::string& to) {
    const std::size_t at = model.config_text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    model.config_text.replace(at, from.size(), to);
}

/// "tokens!" of each finding, the mark for fatal ones.
std::vector<std::string> rules_of(const Directory& model, const Request& request) {
    std::vector<std::string> rules;
    for (const Finding& finding : check(model, request)) {
        rules.push_back(finding.rule + (finding.is_fatal ? "!" : ""));
        EXPECT_FALSE(finding.hint.empty()) << finding.rule;
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
    std::erase_if(model.tensors, [&](const auto& entry) { return entry.first.ends_with(ending); });
}

const std::vector<Fault>& faults() {
    static const std::vector<Fault> all = {
        {"stale_weights",
         plain_llama,
         [](Directory& m) { m.faults = {"a stale file"}; },
         {"weights!"},
         {"weights!"}},
        {"no_config",
         plain_llama,
         [](Directory& m) { m.config_text.clear(); },
         {"config!"},
         {"config!"}},
        {"no_class",
         plain_llama,
         [](Directory& m) { replace_in_config(m, "architectures", "classes"); },
         {},
         {"class!"}},
        {"no_model_type",
         plain_llama,
         [](Directory& m) { replace_in_config(m, "model_type", "kind"); },
         {"model-type!"},
         {}},
        {"code_that_is_missing",
         plain_llama,
         [](Directory& m) {
             m.config_text =
                 with_field(m.config_text, R"("auto_map": {"AutoModel": "modeling_mine.Mine"})");
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
             m.has_tokenizer = false;
             m.n_tokens.reset();
         },
         {"tokenizer"},
         {"tokenizer!"}},
        {"more_tokens_than_rows",
         plain_llama,
         [](Directory& m) { m.n_tokens = 41; },
         {"tokens!"},
         {"tokens!"}},
        {"no_template",
         plain_llama,
         [](Directory& m) { m.files.erase("chat_template.jinja"); },
         {},
         {"template"}},
        {"template_in_the_tokenizer",
         plain_llama,
         [](Directory& m) {
             m.files.erase("chat_template.jinja");
             m.tokenizer_config_text = R"({"chat_template": "{{ x }}"})";
         },
         {},
         {}},
        {"no_generation_config",
         plain_llama,
         [](Directory& m) { m.files.erase("generation_config.json"); },
         {"generation"},
         {"generation"}},
        {"padded_vocabulary",
         plain_llama,
         [](Directory& m) { m.tensors["model.embed_tokens.weight"].shape[0] = 64; },
         {"vocabulary!"},
         {"vocabulary!"}},
        {"no_head",
         plain_llama,
         [](Directory& m) { m.tensors.erase("lm_head.weight"); },
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
         {"quantised!", "ignored!"}},
        {"codes_without_scales",
         packed_llama,
         [](Directory& m) { erase_ending(m, "1.mlp.down_proj.weight_scale"); },
         {"scales!"},
         {"scales!"}},
        {"scales_of_other_blocks",
         block_llama,
         [](Directory& m) {
             m.tensors["model.layers.1.mlp.up_proj.weight_scale_inv"].shape = {2, 2};
         },
         {"blocks!"},
         {"blocks!"}},
        {"partial_blocks",
         block_llama,
         [](Directory& m) {
             m.tensors["model.layers.0.self_attn.o_proj.weight"].shape = {192, 256};
         },
         {"blocks!"},
         {}},
        {"partial_blocks_that_are_joined",
         block_llama,
         [](Directory& m) {
             m.tensors["model.layers.0.mlp.up_proj.weight"].shape = {448, 256};
         },
         {"blocks!"},
         {"extents!"}},
        {"no_status",
         packed_llama,
         [](Directory& m) { replace_in_config(m, "quantization_status", "status"); },
         {"status!"},
         {"status!"}},
        {"a_head_not_listed",
         packed_llama,
         [](Directory& m) { replace_in_config(m, R"(["lm_head"])", "[]"); },
         {"ignored!"},
         {"ignored!"}},
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
             m.tensors["model.layers.0.mlp.up_proj.weight"] = {DType::bf16, {512, 256}};
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
    for (const auto& [name, tensor] : plain_llama().tensors) {
        model.expected[name] = {tensor.shape, false};
    }
    return model;
}

TEST(LoaderCheck, holds_names_against_those_of_the_family) {
    const Request request{Loader::transformers, 1, 1};
    const std::string norm = "model.layers.1.input_layernorm.weight";
    for (const Directory& whole : {plain_llama(), block_llama(), packed_llama()}) {
        Directory model = of_family(whole);
        EXPECT_EQ(rules_of(model, request), Rules{});
        model.tensors[norm].shape = {255};
        EXPECT_EQ(rules_of(model, request), Rules{"names!"});
        model.tensors.erase(norm);
        EXPECT_EQ(rules_of(model, request), Rules{"names!"});
        model.expected[norm].is_optional = true;
        EXPECT_EQ(rules_of(model, request), Rules{});
        model.tensors["model.layers.1.mlp.gate.bias"] = {DType::bf16, {8}};
        EXPECT_EQ(rules_of(model, request), Rules{"names"});
        model.passes = {"*.bias"};
        EXPECT_EQ(rules_of(model, request), Rules{});
    }
    // Other names altogether, which loaders may know.
    Directory renamed = of_family(plain_llama());
    renamed.tensors.clear();
    renamed.tensors["transformer.wte.weight"] = {DType::bf16, {40, 256}};
    renamed.tensors["lm_head.weight"] = {DType::bf16, {40, 256}};
    EXPECT_EQ(rules_of(renamed, request), Rules{"names"});
}

TEST(LoaderCheck, packed_weights_say_their_shape_and_have_scales_for_groups) {
    Directory model = packed_llama();
    erase_ending(model, "0.mlp.up_proj.weight_shape");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
    model = packed_llama();
    model.tensors["model.layers.0.mlp.up_proj.weight_scale"].shape = {512, 1};
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
}

TEST(LoaderCheck, llama_cpp_norms_the_routing_of_qwen3) {
    Directory model = plain_llama();
    replace_in_config(model, R"("model_type": "llama")", R"("model_type": "qwen3_moe")");
    model.gguf = {{"model-q8_0.gguf", "", true, true}};
    model.files.insert("model-q8_0.gguf");
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{"routing"});
    model.config_text = with_field(model.config_text, R"("norm_topk_prob": true)");
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{});
}

TEST(LoaderCheck, llama_cpp_wants_a_gguf_file) {
    Directory model = plain_llama();
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{"gguf!"});
    model.files.insert("model-q8_0.gguf");
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{});
    model.gguf = {{"model-q8_0.gguf", "", true, true}};
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{});
    model.gguf = {{"model-q8_0.gguf", "", true, false}};
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{"gguf-header"});
    model.gguf = {{"model-q8_0.gguf", "", false, true}};
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{"gguf-header!"});
    model.gguf = {{"model-q8_0.gguf", "cut short", true, true}};
    EXPECT_EQ(rules_of(model, {Loader::llama_cpp, 1, 1}), Rules{"gguf-header!"});
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
        if (std::string(text).size() > 2) {
            EXPECT_NO_THROW((void)check(model, {})) << text;
        } else {
            EXPECT_TRUE(test::error_text([&] { (void)check(model, {}); }).starts_with("corrupt"))
                << text;
        }
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

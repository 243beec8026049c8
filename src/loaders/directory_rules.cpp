// Files beside the weights, and config.json against the names and shapes of the tensors.
#include <algorithm>
#include <array>
#include <set>

#include "shardweld/core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

const std::vector<std::string_view> kEmbeddings = {"embed_tokens.weight", "wte.weight",
                                                   "word_embeddings.weight", "embed_in.weight"};
const std::vector<std::string_view> kHeads = {"lm_head.weight", "embed_out.weight"};

void look_at_weights(const Case& model, Findings& findings) {
    for (const std::string& fault : model.directory.faults) {
        findings.fatal(fault, "merge it again, or copy it again from where it was written");
    }
}

void look_for_config(const Case& model, Findings& findings) {
    if (model.directory.config_text.empty()) {
        findings.fatal("config.json is missing", "put the model's config.json there");
    }
}

void look_at_classes(const Case& model, Findings& findings) {
    if (model.directory.config_text.empty()) {
        return;
    }
    const json classes = model.field("architectures");
    if (!classes.is_array() || classes.empty() || !classes[0].is_string()) {
        findings.fatal("config.json names no class in architectures",
                       "add the class that was trained, such as [\"LlamaForCausalLM\"]");
    }
}

void look_at_model_type(const Case& model, Findings& findings) {
    if (!model.directory.config_text.empty() && !model.field("model_type").is_string()) {
        findings.fatal("config.json has no model_type", "add the model's, such as \"llama\"");
    }
}

/// "module--Class" names another repository; "file.Class" a file of this one.
void look_at_code(const Case& model, Findings& findings) {
    const json code = model.field("auto_map");
    if (!code.is_object() || code.empty()) {
        return;
    }
    std::vector<std::string> missing;
    for (const json& entry : code) {
        const std::string text = entry.is_string() ? entry.get<std::string>() : "";
        const std::string file = text.substr(0, text.find('.')) + ".py";
        if (!text.empty() && text.find("--") == std::string::npos &&
            !model.directory.files.contains(file)) {
            missing.push_back(file);
        }
    }
    if (!missing.empty()) {
        findings.fatal("auto_map names code that is not there: " + listed(missing),
                       "copy it from the model that was trained, or remove auto_map");
    } else {
        findings.doubtful("config.json names code of its own (auto_map)",
                          "start with --trust_remote_code, or remove auto_map if the class is "
                          "the library's");
    }
}

void look_for_tokenizer(const Case& model, Findings& findings) {
    if (!model.directory.has_tokenizer) {
        const std::string hint = "copy the tokenizer's files from the model that was trained";
        if (model.request.loader == Loader::transformers) {
            findings.doubtful("no tokenizer lies beside the weights", hint);
        } else {
            findings.fatal("no tokenizer lies beside the weights", hint);
        }
    }
}

void look_at_tokens(const Case& model, Findings& findings) {
    const auto* const embedding = model.ending_in(kEmbeddings);
    if (embedding != nullptr && model.directory.n_tokens && !embedding->second.shape.empty() &&
        *model.directory.n_tokens > embedding->second.shape.front()) {
        findings.fatal("the tokenizer has tokens up to " +
                           std::to_string(*model.directory.n_tokens - 1) + ", " +
                           printable(embedding->first) + " has " +
                           std::to_string(embedding->second.shape.front()) + " rows",
                       "give the tokenizer that the model was trained with");
    }
}

void look_for_template(const Case& model, Findings& findings) {
    const bool is_there =
        model.directory.tokenizer_config_text.find("\"chat_template\"") != std::string::npos ||
        std::ranges::any_of(model.directory.files, [](const std::string& name) {
            return name.starts_with("chat_template");
        });
    if (!is_there && model.directory.has_tokenizer) {
        findings.doubtful("there is no chat template",
                          "chat requests will fail; copy chat_template.jinja from the model that "
                          "was trained, or give the server one");
    }
}

void look_for_generation(const Case& model, Findings& findings) {
    if (!model.directory.files.contains("generation_config.json")) {
        findings.doubtful("generation_config.json is missing",
                          "sampling and end tokens are the library's defaults; copy the file from "
                          "the model that was trained");
    }
}

void look_at_vocabulary(const Case& model, Findings& findings) {
    const auto* const embedding = model.ending_in(kEmbeddings);
    const auto size = model.number("vocab_size");
    if (embedding != nullptr && size && !embedding->second.shape.empty() &&
        embedding->second.shape.front() != *size) {
        findings.fatal("config.json says vocab_size " + std::to_string(*size) + ", " +
                           printable(embedding->first) + " has " +
                           std::to_string(embedding->second.shape.front()) + " rows",
                       "merge again with --vocab_size, or correct config.json");
    }
}

bool has_language_head(const Case& model) {
    const json classes = model.field("architectures");
    const std::string name =
        classes.is_array() && !classes.empty() && classes[0].is_string() ? classes[0] : "";
    return name.ends_with("ForCausalLM") || name.ends_with("ForConditionalGeneration") ||
           name.ends_with("LMHeadModel");
}

void look_at_head(const Case& model, Findings& findings) {
    const json ties = model.field("tie_word_embeddings");
    const auto* const head = model.ending_in(kHeads);
    if (!has_language_head(model) || !ties.is_boolean()) {
        return;
    }
    if (ties.get<bool>() && head != nullptr) {
        findings.doubtful("config.json ties head and embedding, but " + printable(head->first) +
                              " is stored, too",
                          "vLLM ignores it, transformers uses it: write tie_word_embeddings false "
                          "if it is a head of its own");
    } else if (!ties.get<bool>() && head == nullptr) {
        findings.fatal("config.json says that the head is not tied, but there is none",
                       "it would be random: write tie_word_embeddings true, or merge again");
    }
}

/// Numbers of the layers below the text model's stack.
std::set<Index> layers_of(const Directory& directory) {
    constexpr std::array<std::string_view, 6> kStacks = {"model.layers.",
                                                         "model.language_model.layers.",
                                                         "language_model.model.layers.",
                                                         "transformer.h.",
                                                         "gpt_neox.layers.",
                                                         "layers."};
    std::set<Index> numbers;
    for (const std::string_view stack : kStacks) {
        for (const auto& [name, tensor] : directory.tensors) {
            if (name.starts_with(stack)) {
                const std::string_view rest = std::string_view(name).substr(stack.size());
                if (const auto number = parse_index(rest.substr(0, rest.find('.')))) {
                    numbers.insert(*number);
                }
            }
        }
        if (!numbers.empty()) {
            break;
        }
    }
    return numbers;
}

void look_at_layers(const Case& model, Findings& findings) {
    const auto count = model.number("num_hidden_layers");
    const std::set<Index> stored = layers_of(model.directory);
    if (!count || stored.empty() || *count < 0) {
        return;
    }
    std::vector<std::string> missing;
    for (Index layer = 0; layer < *count && missing.size() < 100; ++layer) {
        if (!stored.contains(layer)) {
            missing.push_back(std::to_string(layer));
        }
    }
    if (!missing.empty()) {
        findings.fatal("layers that config.json counts are not stored: " + listed(missing),
                       "they would be random: merge again, or correct num_hidden_layers");
    }
    const Index more = *count + model.number("num_nextn_predict_layers").value_or(0);
    if (*stored.rbegin() >= more) {
        findings.doubtful("layers up to " + std::to_string(*stored.rbegin()) +
                              " are stored, config.json counts " + std::to_string(more),
                          "they would be left out: correct num_hidden_layers");
    }
}

void look_at_prediction(const Case& model, Findings& findings) {
    const Index promised = model.number("num_nextn_predict_layers").value_or(0);
    const std::set<Index> stored = layers_of(model.directory);
    const bool has_own = std::ranges::any_of(model.directory.tensors, [](const auto& entry) {
        return entry.first.starts_with("mtp.") || entry.first.find(".mtp") != std::string::npos;
    });
    if (promised > 0 && !has_own && !stored.empty() &&
        *stored.rbegin() < model.number("num_hidden_layers").value_or(0)) {
        findings.doubtful("config.json promises " + std::to_string(promised) +
                              " layers that predict further tokens, none is stored",
                          "set num_nextn_predict_layers to 0, or do not ask for speculation");
    }
}

void look_for_gguf(const Case& model, Findings& findings) {
    if (std::ranges::none_of(model.directory.files,
                             [](const std::string& name) { return name.ends_with(".gguf"); })) {
        findings.fatal("llama.cpp reads GGUF files, and there is none",
                       "make one of this directory with shardweld merge --backend hf --quantize "
                       "gguf:q8_0, or with "
                       "llama.cpp's convert_hf_to_gguf.py");
    }
}

void look_at_gguf(const Case& model, Findings& findings) {
    for (const GgufFile& file : model.directory.gguf) {
        if (!file.fault.empty()) {
            findings.fatal(printable(file.name) + ": " + file.fault,
                           "write it again, or copy it again from where it was written");
        } else if (!file.has_tokens) {
            findings.fatal(printable(file.name) + " has no tokenizer (tokenizer.ggml.tokens)",
                           "write it again with the trained model's tokenizer beside config.json");
        } else if (!file.has_template) {
            findings.doubtful(printable(file.name) + " has no chat template",
                              "chats get llama.cpp's own: put chat_template.jinja beside "
                              "config.json and write it again, or give --chat-template");
        }
    }
}

/// Absent is false, as in transformers' Qwen3MoeConfig.
void look_at_routing(const Case& model, Findings& findings) {
    const json norm = model.field("norm_topk_prob");
    if (model.field("model_type") == "qwen3_moe" && norm != true) {
        findings.doubtful(
            "config.json does not norm the routing's weights (norm_topk_prob), "
            "llama.cpp does so in all Qwen3-MoE models",
            "its results will differ from transformers'");
    }
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<Rule>& directory_rules() {
    static const std::vector<Rule> rules = {
        {"weights", kHub, look_at_weights,
         "files are strict safetensors, and agree with their index; no stale file lies beside them",
         "safetensors 0.8 and transformers 5.23, run: a stale model.safetensors is loaded"},
        {"config", kHub, look_for_config, "config.json is there", "transformers 5.23, run"},
        {"class", kServers, look_at_classes, "`architectures` names a class",
         "vLLM's and SGLang's registries of models, read"},
        {"model-type", kPython, look_at_model_type, "`model_type` is stated",
         "transformers 5.23 AutoConfig, run: ValueError"},
        {"code", kHub, look_at_code, "files that `auto_map` names are there",
         "transformers 5.23 dynamic_module_utils, read"},
        {"tokenizer", kHub, look_for_tokenizer,
         "a tokenizer is there; only a remark for transformers",
         "vLLM's and TGI's start without options, read"},
        {"tokens", kHub, look_at_tokens, "the embedding has a row for each token",
         "a row that is not there is read beyond the end"},
        {"template", kServers, look_for_template, "a chat template is there",
         "transformers 5.23, read"},
        {"generation", kHub, look_for_generation, "generation_config.json is there",
         "transformers 5.23, read"},
        {"vocabulary", kHub, look_at_vocabulary, "`vocab_size` is the embedding's rows",
         "transformers 5.23, run: RuntimeError"},
        {"head", kHub, look_at_head, "`tie_word_embeddings` agrees with the stored head",
         "transformers 5.23, run: a missing tensor is random, with a report only"},
        {"layers", kHub, look_at_layers, "each of `num_hidden_layers` is stored, and none beyond",
         "transformers 5.23, run: a missing tensor is random, with a report only"},
        {"prediction", kHub, look_at_prediction,
         "`num_nextn_predict_layers` counts layers that are stored", "vLLM's MTP drafters, read"},
        {"gguf", bit(Loader::llama_cpp), look_for_gguf, "there is a GGUF file", "llama.cpp, read"},
        {"gguf-header", bit(Loader::llama_cpp), look_at_gguf,
         "its tensors lie where its header says, its metadata has a tokenizer",
         "xllamacpp 2026.10, run"},
        {"routing", bit(Loader::llama_cpp), look_at_routing, "Qwen3-MoE: `norm_topk_prob` is true",
         "llama.cpp's graph of qwen3moe, read"},
    };
    return rules;
}

}  // namespace shardweld::loaders

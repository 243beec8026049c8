// GGUF files as llama.cpp loads them: what its metadata promises against the tensors.
// Sources: llama.cpp b11549 as xllamacpp 2026.10 has it, run on files without each tensor and each
// key, and with others; gguf 0.19 constants, read.
#include <algorithm>
#include <array>
#include <set>

#include "core/text.hpp"

#include "gguf_shapes.hpp"
#include "known_names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using Extents = std::map<std::string, std::vector<Index>>;

constexpr const char* kWriteAgain = "write it again, or copy it again from where it was written";

bool is_shard_name(const std::string& name) {
    return name.find("-of-") != std::string::npos;
}

/// A file with what belongs to it: the first of several holds the metadata of all.
struct Model {
    const GgufFile* first = nullptr;
    std::string name;
    Extents tensors;
    Index n_files = 0;

    [[nodiscard]] std::string architecture() const { return text("general.architecture"); }
    [[nodiscard]] std::string text(const std::string& key) const {
        const auto at = first->texts.find(key);
        return at == first->texts.end() ? "" : at->second;
    }
    [[nodiscard]] std::optional<Index> number(const std::string& key) const {
        const auto at = first->numbers.find(key);
        return at == first->numbers.end() ? std::nullopt : std::optional(at->second);
    }
    /// A number of the architecture's own ("llama.block_count").
    [[nodiscard]] std::optional<Index> own(const std::string& key) const {
        return number(architecture() + "." + key);
    }
    [[nodiscard]] Index length(const std::string& key) const {
        const auto at = first->lengths.find(key);
        return at == first->lengths.end() ? 0 : at->second;
    }
    /// Towers of images, adapters and vocabularies are no models of text.
    [[nodiscard]] bool is_model() const {
        const std::string type = text("general.type");
        return architecture() != "clip" && (type.empty() || type == "model");
    }
};

/// "model-00001-of-00003.gguf" as "model"; the whole name of a single file.
std::string stem_of(const std::string& name) {
    const std::size_t of = name.find("-of-");
    const std::size_t dash = of == std::string::npos ? of : name.rfind('-', of - 1);
    return dash == std::string::npos ? name : name.substr(0, dash);
}

std::vector<Model> models_of(const Directory& directory) {
    std::map<std::string, Model> models;
    for (const GgufFile& file : directory.gguf) {
        if (!file.fault.empty() || !file.unknown.empty()) {
            continue;
        }
        Model& model = models[is_shard_name(file.name) ? stem_of(file.name) : file.name];
        if (model.first == nullptr) {
            model.first = &file;
            model.name = printable(file.name);
        }
        model.tensors.insert(file.tensors.begin(), file.tensors.end());
        ++model.n_files;
    }
    std::vector<Model> all;
    for (auto& [stem, model] : models) {
        if (model.is_model()) {
            all.push_back(std::move(model));
        }
    }
    return all;
}

void look_for_gguf(const ModelUnderCheck& model, Findings& findings) {
    if (std::ranges::none_of(model.directory.files,
                             [](const std::string& name) { return name.ends_with(".gguf"); })) {
        findings.fatal(
            "llama.cpp reads GGUF files, and there is none",
            "make one of this directory with shardweld merge DIR OUT --quantize gguf:q8_0, "
            "or with llama.cpp's convert_hf_to_gguf.py");
    }
}

void look_at_headers(const ModelUnderCheck& model, Findings& findings) {
    for (const GgufFile& file : model.directory.gguf) {
        if (!file.fault.empty()) {
            findings.fatal(printable(file.name) + ": " + file.fault, kWriteAgain);
        } else if (!file.unknown.empty()) {
            findings.doubtful(printable(file.name) + " is not checked: " + file.unknown,
                              "try it with llama.cpp itself");
        }
    }
    for (const Model& file : models_of(model.directory)) {
        const Index n_files = file.number("split.count").value_or(1);
        if (n_files > 1 && n_files != file.n_files) {
            findings.fatal(file.name + " is one of " + std::to_string(n_files) + " files, " +
                               std::to_string(file.n_files) + " are there",
                           "copy all of them");
        }
    }
}

/// Families of plain decoders, whose blocks all have attention and a feed-forward part.
bool is_plain_decoder(const std::string& architecture) {
    return is_one_of(
        "deepseek2 llama qwen2 qwen2moe qwen3 qwen3moe qwen2vl qwen3vl qwen3vlmoe gemma gemma2 "
        "gemma3 mistral3 phi3 olmo2",
        architecture);
}

/// Numbers that a model is not loaded without; of plain decoders those of attention, too.
void look_at_numbers_of(const Model& file, Findings& findings) {
    std::vector<std::string> needed = {"block_count", "context_length", "embedding_length"};
    if (is_plain_decoder(file.architecture())) {
        needed.insert(needed.end(), {"feed_forward_length", "attention.head_count",
                                     "attention.layer_norm_rms_epsilon"});
        if (file.own("expert_count").value_or(0) > 0) {
            needed.emplace_back("expert_used_count");
        }
    }
    for (const std::string& key : needed) {
        const std::string whole = file.architecture() + "." + key;
        const bool is_real = key.ends_with("epsilon") && file.first->keys.contains(whole);
        if (!is_real && !file.own(key) && file.length(whole) == 0) {
            findings.fatal(file.name + " has no number " + whole, kWriteAgain);
        }
    }
}

/// Looks for the metadata without which no model is loaded.
void look_at_keys(const ModelUnderCheck& model, Findings& findings) {
    for (const Model& file : models_of(model.directory)) {
        const std::string name = file.architecture();
        if (name.empty()) {
            findings.fatal(file.name + " has no general.architecture", kWriteAgain);
        } else if (!knows_class(Loader::llama_cpp, name)) {
            findings.fatal(file.name + " has the general.architecture " + printable(name) +
                               ", which llama.cpp does not know",
                           "write it with a converter of the same version as llama.cpp");
        } else {
            look_at_numbers_of(file, findings);
        }
    }
}

/// Types of tokens and scores are read by the number of a token.
void look_at_lists(const Model& file, Findings& findings) {
    const Index n_tokens = file.length("tokenizer.ggml.tokens");
    for (const char* key : {"tokenizer.ggml.token_type", "tokenizer.ggml.scores"}) {
        const Index length = file.length(key);
        if (length != 0 && length != n_tokens) {
            findings.add(length < n_tokens,
                         file.name + " has " + std::to_string(n_tokens) +
                             " tokens (tokenizer.ggml.tokens), but " + std::to_string(length) +
                             " entries in " + key,
                         kWriteAgain);
        }
    }
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.bos_token_id"}) {
        if (file.number(key).value_or(0) >= n_tokens) {
            findings.doubtful(file.name + " has " + key + " " + std::to_string(*file.number(key)) +
                                  ", and " + std::to_string(n_tokens) + " tokens",
                              "llama.cpp takes another: " + std::string(kWriteAgain));
        }
    }
}

void look_at_vocabulary_of(const Model& file, Findings& findings) {
    const bool has_none = file.text("tokenizer.ggml.model") == "none";
    const Index n_tokens =
        has_none ? file.own("vocab_size").value_or(0) : file.length("tokenizer.ggml.tokens");
    for (const char* name : {"token_embd.weight", "output.weight"}) {
        const auto at = file.tensors.find(name);
        if (n_tokens != 0 && at != file.tensors.end() && at->second.size() == 2 &&
            at->second.front() != n_tokens) {
            findings.fatal(file.name + " has " + std::to_string(n_tokens) + " tokens, but " + name +
                               " has " + std::to_string(at->second.front()) + " rows",
                           "llama.cpp refuses it: write it with the trained model's tokenizer, or "
                           "merge with its --vocab_size");
        }
    }
}

void look_at_words(const ModelUnderCheck& model, Findings& findings) {
    for (const Model& file : models_of(model.directory)) {
        if (file.length("tokenizer.ggml.tokens") == 0 &&
            file.text("tokenizer.ggml.model") != "none") {
            findings.fatal(file.name + " has no tokenizer (tokenizer.ggml.tokens)",
                           "write it again with the trained model's tokenizer beside config.json");
            continue;
        }
        if (file.text("tokenizer.ggml.model").empty()) {
            findings.fatal(file.name +
                               " does not say of what kind its tokenizer is "
                               "(tokenizer.ggml.model)",
                           kWriteAgain);
        }
        look_at_lists(file, findings);
        look_at_vocabulary_of(file, findings);
        if (file.text("tokenizer.chat_template").empty()) {
            findings.doubtful(file.name + " has no chat template (tokenizer.chat_template)",
                              "chats get llama.cpp's own: put chat_template.jinja beside "
                              "config.json and write it again, or give --chat-template");
        }
    }
}

/// "attn_q.weight" of "blk.3.attn_q.weight", by block. Tensors that all blocks share, and those of
/// layers that predict further tokens, which come beside the others, count for none.
std::map<Index, std::set<std::string>> blocks_of(const Extents& tensors) {
    constexpr std::string_view kBlock = "blk.";
    std::map<Index, std::set<std::string>> blocks;
    for (const auto& [name, extents] : tensors) {
        const std::size_t dot = name.find('.', kBlock.size());
        if (!name.starts_with(kBlock) || dot == std::string::npos) {
            continue;
        }
        const auto number = parse_index(name.substr(kBlock.size(), dot - kBlock.size()));
        const std::string part = name.substr(dot + 1);
        if (number && part.find("nextn") == std::string::npos && !part.starts_with("rope_")) {
            blocks[*number].insert(part);
        }
    }
    return blocks;
}

/// Families whose layers may lack what others have.
bool has_uneven_blocks(const std::string& architecture) {
    return is_one_of("deci gemma3n gemma4 openelm t5", architecture);
}

/// Layers of one kind have the same tensors: one whose tensors are a part of those of another is
/// not of another kind, but lacks the rest.
std::vector<std::string> lacking(const std::map<Index, std::set<std::string>>& blocks) {
    std::vector<std::string> missing;
    for (const auto& [number, parts] : blocks) {
        std::set<std::string> most;
        for (const auto& [other, more] : blocks) {
            if (more.size() > std::max(parts.size(), most.size()) &&
                std::ranges::includes(more, parts)) {
                most = more;
            }
        }
        for (const std::string& part : most) {
            if (!parts.contains(part)) {
                missing.push_back("blk." + std::to_string(number) + "." + part);
            }
        }
    }
    return missing;
}

using Choices = std::vector<std::string_view>;

/// What a family's layers need one of each.
const std::vector<Choices>& needs_of(const std::string& architecture) {
    static const std::vector<Choices> all = {
        {"attn_output.weight"},
        {"attn_q.weight", "attn_qkv.weight", "attn_q_b.weight"},
        {"attn_k.weight", "attn_qkv.weight", "attn_k_b.weight", "attn_kv_b.weight"},
        {"attn_v.weight", "attn_qkv.weight", "attn_v_b.weight", "attn_kv_b.weight"},
        {"ffn_down.weight", "ffn_down_exps.weight"},
        {"ffn_up.weight", "ffn_up_exps.weight", "ffn_gate_up_exps.weight"}};
    static const std::map<std::string_view, std::vector<Choices>> more = {
        {"gemma2", {{"post_attention_norm.weight"}, {"post_ffw_norm.weight"}}},
        {"gemma3",
         {{"post_attention_norm.weight"}, {"post_ffw_norm.weight"}, {"attn_q_norm.weight"}}},
        {"qwen2moe", {{"ffn_up_shexp.weight"}, {"ffn_gate_inp_shexp.weight"}}},
        {"qwen3", {{"attn_q_norm.weight"}}},
        {"qwen3moe", {{"attn_q_norm.weight"}}},
        {"qwen3vl", {{"attn_q_norm.weight"}}},
        {"qwen3vlmoe", {{"attn_q_norm.weight"}}},
        {"deepseek2", {{"attn_kv_a_mqa.weight"}}}};
    static const auto of_families = [] {
        std::map<std::string_view, std::vector<Choices>> families;
        for (const std::string_view name : kShapedGguf) {
            auto& needs = families[name] = all;
            needs.insert(needs.end(),
                         {{"attn_norm.weight"},
                          {"ffn_norm.weight"},
                          {"ffn_gate.weight", "ffn_gate_exps.weight", "ffn_gate_up_exps.weight"}});
            if (const auto own = more.find(name); own != more.end()) {
                needs.insert(needs.end(), own->second.begin(), own->second.end());
            }
        }
        return families;
    }();
    const auto family = of_families.find(architecture);
    return family == of_families.end() ? all : family->second;
}

/// The first comes with any of the others: a router with experts, an upper half with a lower one.
const std::vector<Choices>& come_together() {
    static const std::vector<Choices> together = {
        {"ffn_gate_inp.weight", "ffn_down_exps.weight"},
        {"ffn_down_exps.weight", "ffn_gate_inp.weight"},
        {"ffn_up_exps.weight", "ffn_gate_exps.weight"},
        {"ffn_gate_exps.weight", "ffn_up_exps.weight"},
        {"ffn_up_shexp.weight", "ffn_down_shexp.weight"},
        {"ffn_down_shexp.weight", "ffn_up_shexp.weight"},
        {"ffn_gate_shexp.weight", "ffn_up_shexp.weight"},
        {"attn_q_a.weight", "attn_q_b.weight"},
        {"attn_q_a_norm.weight", "attn_q_b.weight"},
        {"attn_q_b.weight", "attn_q_a.weight"},
        {"attn_kv_a_mqa.weight", "attn_k_b.weight", "attn_v_b.weight", "attn_kv_b.weight"},
        {"attn_kv_a_norm.weight", "attn_k_b.weight", "attn_v_b.weight", "attn_kv_b.weight"},
        {"attn_k_b.weight", "attn_v_b.weight"},
        {"attn_v_b.weight", "attn_k_b.weight"},
        {"attn_q_norm.weight", "attn_k_norm.weight"},
        {"attn_k_norm.weight", "attn_q_norm.weight"}};
    return together;
}

std::vector<std::string> lacking_in_family(const std::string& architecture,
                                           const std::map<Index, std::set<std::string>>& blocks) {
    std::vector<std::string> missing;
    for (const auto& [number, parts] : blocks) {
        const auto has = [&here = parts](std::string_view part) {
            return here.contains(std::string(part));
        };
        const std::string block = "blk." + std::to_string(number) + ".";
        for (const Choices& choices : needs_of(architecture)) {
            if (std::ranges::none_of(choices, has)) {
                missing.push_back(block + std::string(choices.front()));
            }
        }
        for (const Choices& parts_together : come_together()) {
            if (!has(parts_together.front()) && std::ranges::any_of(parts_together, has)) {
                missing.push_back(block + std::string(parts_together.front()));
            }
        }
    }
    return missing;
}

/// Encoders have other names for both ends.
bool is_encoder(const Model& file) {
    return file.architecture().find("bert") != std::string::npos ||
           file.architecture().starts_with("t5") || file.architecture().starts_with("wav");
}

std::vector<std::string> missing_tensors(const Model& file, Index n_blocks) {
    std::vector<std::string> missing;
    for (const char* name : {"token_embd.weight", "output_norm.weight"}) {
        if (!file.tensors.contains(name) && !is_encoder(file)) {
            missing.emplace_back(name);
        }
    }
    const auto blocks = blocks_of(file.tensors);
    for (Index block = 0; block < n_blocks && missing.size() < 1000; ++block) {
        if (!blocks.contains(block)) {
            missing.push_back("all of blk." + std::to_string(block));
        }
    }
    if (!has_uneven_blocks(file.architecture())) {
        std::ranges::move(lacking(blocks), std::back_inserter(missing));
    }
    if (missing.empty() && is_plain_decoder(file.architecture())) {
        std::ranges::move(lacking_in_family(file.architecture(), blocks),
                          std::back_inserter(missing));
    }
    return missing;
}

void look_at_tensors(const ModelUnderCheck& model, Findings& findings) {
    for (const Model& file : models_of(model.directory)) {
        const auto n_blocks = file.own("block_count");
        if (!n_blocks) {
            continue;
        }
        findings.fatal_for(missing_tensors(file, *n_blocks), file.name + " lacks tensors: ",
                           "llama.cpp refuses it, or computes without them: write it again, or "
                           "copy all of its files");
        const auto number = [&](const std::string& key) {
            const bool is_list = file.length(file.architecture() + "." + key) != 0;
            return is_list ? std::nullopt : file.own(key);
        };
        findings.fatal_for(
            wrong_gguf_shapes(file.architecture(), number, file.tensors),
            file.name + " has tensors whose extents are not those that its numbers say: ",
            "llama.cpp refuses it: write it again");
        const auto blocks = blocks_of(file.tensors);
        if (!blocks.empty() && blocks.rbegin()->first >= *n_blocks) {
            findings.fatal(file.name + " has tensors of blk." +
                               std::to_string(blocks.rbegin()->first) + ", but " +
                               file.architecture() + ".block_count is " + std::to_string(*n_blocks),
                           "llama.cpp refuses it: write it again");
        }
        for (const char* name : {"token_embd.weight", "output.weight", "output_norm.weight",
                                 "blk.0.attn_norm.weight"}) {
            const auto at = file.tensors.find(name);
            const auto width = file.own("embedding_length");
            if (at != file.tensors.end() && width && !at->second.empty() &&
                at->second.back() != *width) {
                findings.fatal(file.name + ": " + name + " has " +
                                   std::to_string(at->second.back()) + " columns, " +
                                   file.architecture() + ".embedding_length is " +
                                   std::to_string(*width),
                               "llama.cpp refuses it: write it again");
            }
        }
    }
}

/// Absent is false, as in transformers' Qwen3MoeConfig.
void look_at_routing(const ModelUnderCheck& model, Findings& findings) {
    if (model.field("model_type") == "qwen3_moe" && model.field("norm_topk_prob") != true) {
        findings.doubtful(
            "config.json does not norm the routing's weights (norm_topk_prob), "
            "llama.cpp does so in all Qwen3-MoE models",
            "its results will differ from transformers'");
    }
}

}  // namespace

constexpr unsigned kCpp = bit(Loader::llama_cpp);

constexpr auto kGgufTable = std::to_array<Rule>({
    {"gguf", kCpp, look_for_gguf, "there is a GGUF file", "llama.cpp, read"},
    {"gguf-header", kCpp, look_at_headers,
     "its tensors lie where its header says, and all files of a split model are there",
     "llama.cpp b11549, run on damaged files"},
    {"gguf-keys", kCpp, look_at_keys,
     "its architecture is one that llama.cpp knows, and has the numbers that it needs",
     "llama.cpp b11549, run on damaged files"},
    {"gguf-tokens", kCpp, look_at_words,
     "its metadata has a tokenizer with a token for each row of the embedding",
     "llama.cpp b11549, run on damaged files"},
    {"gguf-tensors", kCpp, look_at_tensors,
     "it has both ends and all layers, each with the same tensors as others of its kind; in "
     "families of plain decoders and MLA what the family has, with the extents that the "
     "metadata says",
     "llama.cpp b11549, run on damaged files"},
    {"routing", kCpp, look_at_routing, "Qwen3-MoE: `norm_topk_prob` is true",
     "llama.cpp's graph of qwen3moe, read"},
});
const std::span<const Rule> kGgufRules = kGgufTable;

}  // namespace shardweld::loaders

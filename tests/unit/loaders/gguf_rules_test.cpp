// GGUF files.
#include <functional>

#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

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

}  // namespace
}  // namespace shardweld::loaders

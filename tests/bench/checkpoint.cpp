#include "checkpoint.hpp"

#include <nlohmann/json.hpp>

#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "saving.hpp"

namespace shardweld::bench {

namespace fs = std::filesystem;

// Virtual stages go round the ranks: rank pp holds the stages vpp * grid.pp + pp.
Stage stage_of(const Checkpoint& checkpoint, Index pp, Index vpp) {
    const Index stages = checkpoint.grid.stages();
    const Index number = vpp * checkpoint.grid.pp + pp;
    const Index begin = number * checkpoint.model.layers / stages;
    const Index end = (number + 1) * checkpoint.model.layers / stages;
    return {begin, end - begin, number == 0, number == stages - 1};
}

fs::path make_iteration_directory(const fs::path& out) {
    const fs::path source = out / "source";
    if (fs::exists(source)) {
        throw Error(ErrorCode::target, source.string() + " exists: remove it first");
    }
    fs::create_directories(source / "iter_0000001");
    io::write_text(source / "latest_checkpointed_iteration.txt", "1", false);
    return source / "iter_0000001";
}

Bytes bytes_below(const fs::path& directory) {
    Bytes sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        sum += entry.is_regular_file() ? entry.file_size() : 0;
    }
    return sum;
}

bool has_extra_state(const Shard& shard) {
    return shard.shape.size() == 2 && shard.name != "mlp.router.weight";
}

std::string extra_state_of(const std::string& weight) {
    return weight.substr(0, weight.size() - std::string("weight").size()) + "_extra_state";
}

namespace {

nlohmann::ordered_json llama_config(const Checkpoint& checkpoint) {
    const auto& [model, grid, values, has_states] = checkpoint;
    return {
        {"architectures", {"LlamaForCausalLM"}},
        {"attention_bias", false},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"head_dim", model.head_dim},
        {"hidden_act", "silu"},
        {"hidden_size", model.hidden},
        {"intermediate_size", model.ffn},
        {"max_position_embeddings", 4096},
        {"mlp_bias", false},
        {"model_type", "llama"},
        {"num_attention_heads", model.heads},
        {"num_hidden_layers", model.layers},
        {"num_key_value_heads", model.groups},
        {"rms_norm_eps", 1e-5},
        {"rope_theta", 10000.0},
        {"tie_word_embeddings", false},
        {"torch_dtype", torch_name(values.dtype)},
        {"vocab_size", model.vocab},
    };
}

nlohmann::ordered_json deepseek_config(const Checkpoint& checkpoint) {
    const auto& [model, grid, values, has_states] = checkpoint;
    return {
        {"architectures", {"DeepseekV3ForCausalLM"}},
        {"attention_bias", false},
        {"bos_token_id", 0},
        {"eos_token_id", 1},
        {"first_k_dense_replace", model.dense_layers},
        {"hidden_act", "silu"},
        {"hidden_size", model.hidden},
        {"intermediate_size", model.ffn},
        {"kv_lora_rank", model.key_rank},
        {"max_position_embeddings", 4096},
        {"model_type", "deepseek_v3"},
        {"moe_intermediate_size", model.expert_ffn},
        {"moe_layer_freq", 1},
        {"n_group", 1},
        {"n_routed_experts", model.experts},
        {"n_shared_experts", 1},
        {"norm_topk_prob", true},
        {"num_attention_heads", model.heads},
        {"num_experts_per_tok", 8},
        {"num_hidden_layers", model.layers},
        {"num_key_value_heads", model.heads},
        {"num_nextn_predict_layers", 0},
        {"q_lora_rank", model.query_rank},
        {"qk_nope_head_dim", model.head_dim},
        {"qk_rope_head_dim", model.rope_dim},
        {"rms_norm_eps", 1e-5},
        {"rope_theta", 10000.0},
        {"routed_scaling_factor", 2.5},
        {"scoring_func", "sigmoid"},
        {"tie_word_embeddings", false},
        {"topk_group", 1},
        {"topk_method", "noaux_tc"},
        {"torch_dtype", torch_name(values.dtype)},
        {"v_head_dim", model.value_dim},
        {"vocab_size", model.vocab},
    };
}

}  // namespace

void write_hub_config(const fs::path& out, const Checkpoint& checkpoint) {
    const auto config =
        checkpoint.model.has_experts() ? deepseek_config(checkpoint) : llama_config(checkpoint);
    fs::create_directories(out / "hf");
    io::write_text(out / "hf" / "config.json", config.dump(2) + "\n", false);
}

}  // namespace shardweld::bench

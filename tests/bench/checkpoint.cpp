#include "checkpoint.hpp"

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"

#include "saving.hpp"

namespace shardweld::bench {

namespace fs = std::filesystem;

// Virtual stages go round the ranks: rank pp holds the stages vpp * grid.pp + pp.
Stage stage_of(const Checkpoint& checkpoint, Index pp, Index vpp) {
    const Index stages = checkpoint.grid.stages();
    const Index per_stage = checkpoint.model.layers / stages;
    const Index number = vpp * checkpoint.grid.pp + pp;
    return {number * per_stage, per_stage, number == 0, number == stages - 1};
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
    return shard.shape.size() == 2;
}

std::string extra_state_of(const std::string& weight) {
    return weight.substr(0, weight.size() - std::string("weight").size()) + "_extra_state";
}

void write_hub_config(const fs::path& out, const Checkpoint& checkpoint) {
    const auto& [model, grid, values] = checkpoint;
    const nlohmann::ordered_json config = {
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
    fs::create_directories(out / "hf");
    io::write_text(out / "hf" / "config.json", config.dump(2) + "\n", false);
}

}  // namespace shardweld::bench

#include "training_args.hpp"

#include <utility>
#include <vector>

namespace shardweld::bench {

namespace {

using Number = std::pair<const char*, Index>;
using Flag = std::pair<const char*, bool>;

std::vector<Number> numbers(const Model& model, const Grid& grid) {
    return {{"tensor_model_parallel_size", grid.tp},
            {"pipeline_model_parallel_size", grid.pp},
            {"expert_model_parallel_size", grid.ep},
            {"expert_tensor_parallel_size", model.has_experts() ? grid.etp : grid.tp},
            {"context_parallel_size", 1},
            {"data_parallel_size", grid.ranks_per_stage() / grid.tp},
            {"world_size", grid.ranks_per_stage() * grid.pp},
            {"num_layers", model.layers},
            {"hidden_size", model.hidden},
            {"ffn_hidden_size", model.ffn},
            {"num_attention_heads", model.heads},
            {"num_query_groups", model.groups},
            {"kv_channels", model.head_dim},
            {"make_vocab_size_divisible_by", 128},
            {"vocab_size", model.vocab},
            {"padded_vocab_size", padded_vocab(model, grid)},
            {"max_position_embeddings", 4096},
            {"seq_length", 4096},
            {"rotary_base", 10000},
            {"iteration", 1}};
}

std::vector<Number> numbers_of_experts(const Model& model) {
    return {{"num_experts", model.experts},
            {"moe_ffn_hidden_size", model.expert_ffn},
            {"moe_shared_expert_intermediate_size", model.expert_ffn},
            {"q_lora_rank", model.query_rank},
            {"kv_lora_rank", model.key_rank},
            {"qk_head_dim", model.head_dim},
            {"qk_pos_emb_head_dim", model.rope_dim},
            {"v_head_dim", model.value_dim}};
}

std::vector<Flag> flags(const Checkpoint& checkpoint) {
    const bool has_experts = checkpoint.model.has_experts();
    return {{"group_query_attention", !has_experts},
            {"swiglu", true},
            {"untie_embeddings_and_output_weights", true},
            {"add_bias_linear", false},
            {"add_qkv_bias", false},
            {"qk_layernorm", false},
            {"rotary_interleaved", false},
            {"apply_layernorm_1p", false},
            {"layernorm_zero_centered_gamma", false},
            {"multi_latent_attention", has_experts},
            {"use_distributed_optimizer", false},
            {"fp16", false},
            {"bf16", checkpoint.values.dtype == DType::bf16}};
}

void put_args(PickleWriter& out, const Checkpoint& checkpoint) {
    out.global("argparse", "Namespace").op(PickleOp::empty_tuple).op(PickleOp::newobj);
    out.op(PickleOp::empty_dict).op(PickleOp::mark);
    for (const auto& [name, value] : numbers(checkpoint.model, checkpoint.grid)) {
        out.text(name).integer(value);
    }
    if (checkpoint.model.has_experts()) {
        for (const auto& [name, value] : numbers_of_experts(checkpoint.model)) {
            out.text(name).integer(value);
        }
    } else {
        out.text("num_experts").op(PickleOp::none);
    }
    for (const auto& [name, value] : flags(checkpoint)) {
        out.text(name).boolean(value);
    }
    out.text("virtual_pipeline_model_parallel_size");
    if (checkpoint.grid.vpp > 1) {
        out.integer(checkpoint.grid.vpp);
    } else {
        out.op(PickleOp::none);
    }
    out.text("params_dtype").global("torch", torch_name(checkpoint.values.dtype));
    out.text("norm_epsilon").real(1e-5);
    out.text("rotary_percent").real(1.0);
    out.text("normalization").text("RMSNorm");
    out.text("position_embedding_type").text("rope");
    out.text("transformer_impl").text("transformer_engine");
    out.op(PickleOp::setitems).op(PickleOp::build);
}

/// What common.pt says of Adam, whose states are saved "fully_reshardable".
void put_optimizer(PickleWriter& out) {
    out.text("optimizer").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("optimizer").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("param_groups").op(PickleOp::empty_list).op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("lr").real(1e-4).text("eps").real(1e-8).text("weight_decay").real(0.1);
    out.text("betas").real(0.9).real(0.95).op(PickleOp::tuple2);
    out.text("step").integer(1);
    out.op(PickleOp::setitems).op(PickleOp::append).op(PickleOp::setitems);
    out.text("param_state_sharding_type").text("fully_reshardable");
    out.op(PickleOp::setitems);
}

}  // namespace

void put_common_state(PickleWriter& out, const Checkpoint& checkpoint) {
    out.text("args");
    put_args(out, checkpoint);
    out.text("checkpoint_version").real(3.0);
    out.text("iteration").integer(1);
    if (checkpoint.has_states) {
        put_optimizer(out);
    }
}

}  // namespace shardweld::bench

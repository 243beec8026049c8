// DeepSeek-like networks: latent attention, the first layers dense, the others with experts.
// Names of Transformer Engine's layers. Sources: megatron-core 0.16.1; transformers 5
// models/deepseek_v3.
#include <algorithm>
#include <array>
#include <utility>

#include "shardweld/error.hpp"

#include "cuts.hpp"

namespace shardweld::bench {

namespace {

constexpr std::array<std::pair<const char*, Model>, 3> kModels = {{
    {"671b", {7168, 128, 128, 128, 18432, 129280, 61, 1536, 512, 64, 128, 256, 2048, 3}},
    {"1t", {7168, 64, 64, 128, 18432, 163840, 61, 1536, 512, 64, 128, 384, 2048, 1}},
    {"moe", {64, 8, 8, 8, 96, 1003, 5, 24, 16, 4, 12, 12, 32, 1}},
}};

Index query_rows(const Model& model) {
    return model.heads * (model.head_dim + model.rope_dim);
}

Index key_value_rows(const Model& model) {
    return model.heads * (model.head_dim + model.value_dim);
}

bool is_dense(const Model& model, Index layer) {
    return layer < model.dense_layers;
}

std::string expert_name(const std::string& layer, Index expert) {
    return layer + "mlp.experts." + std::to_string(expert) + ".";
}

void add_feed_forward(const std::string& name, Index hidden, Index ffn,
                      std::vector<HubTensor>& out) {
    out.push_back({name + "gate_proj.weight", {ffn, hidden}});
    out.push_back({name + "up_proj.weight", {ffn, hidden}});
    out.push_back({name + "down_proj.weight", {hidden, ffn}});
}

void add_attention(const Model& model, const std::string& layer, std::vector<HubTensor>& out) {
    const std::string name = layer + "self_attn.";
    out.push_back({layer + "input_layernorm.weight", {model.hidden}});
    out.push_back({name + "q_a_proj.weight", {model.query_rank, model.hidden}});
    out.push_back({name + "q_a_layernorm.weight", {model.query_rank}});
    out.push_back({name + "q_b_proj.weight", {query_rows(model), model.query_rank}});
    out.push_back(
        {name + "kv_a_proj_with_mqa.weight", {model.key_rank + model.rope_dim, model.hidden}});
    out.push_back({name + "kv_a_layernorm.weight", {model.key_rank}});
    out.push_back({name + "kv_b_proj.weight", {key_value_rows(model), model.key_rank}});
    out.push_back({name + "o_proj.weight", {model.hidden, model.heads * model.value_dim}});
    out.push_back({layer + "post_attention_layernorm.weight", {model.hidden}});
}

/// Whether experts of a layer are one tensor, as in modules, or apart.
void add_layer(const Model& model, Index number, bool is_module, std::vector<HubTensor>& out) {
    const std::string layer = layer_name(number);
    const Index hidden = model.hidden;
    add_attention(model, layer, out);
    if (is_dense(model, number)) {
        add_feed_forward(layer + "mlp.", hidden, model.ffn, out);
        return;
    }
    out.push_back({layer + "mlp.gate.weight", {model.experts, hidden}});
    out.push_back({layer + "mlp.gate.e_score_correction_bias", {model.experts}, true});
    if (is_module) {
        out.push_back(
            {layer + "mlp.experts.gate_up_proj", {model.experts, 2 * model.expert_ffn, hidden}});
        out.push_back({layer + "mlp.experts.down_proj", {model.experts, hidden, model.expert_ffn}});
    } else {
        for (Index expert = 0; expert < model.experts; ++expert) {
            add_feed_forward(expert_name(layer, expert), hidden, model.expert_ffn, out);
        }
    }
    add_feed_forward(layer + "mlp.shared_experts.", hidden, model.expert_ffn, out);
}

Band whole(const std::string& tensor, Index n_rows, Index n_columns) {
    return rows(tensor, n_columns, 0, n_rows);
}

/// A matrix that all ranks hold.
Shard replicated(const std::string& name, const Band& band) {
    Shard shard = row_split(name, band, 1, 0);
    shard.is_replicated = true;
    return shard;
}

/// `hub`: the name up to "gate_proj.weight".
void add_feed_forward_shards(const std::string& name, const std::string& hub, const Model& model,
                             Index ffn, Index n_ranks, Index rank, std::vector<Shard>& out) {
    out.push_back(gate_up_split(name + "linear_fc1.weight",
                                whole(hub + "gate_proj.weight", ffn, model.hidden),
                                whole(hub + "up_proj.weight", ffn, model.hidden), n_ranks, rank));
    out.push_back(column_split(name + "linear_fc2.weight",
                               whole(hub + "down_proj.weight", model.hidden, ffn), n_ranks, rank));
}

void add_attention_shards(const Model& model, const Grid& grid, const std::string& hub, Index rank,
                          std::vector<Shard>& out) {
    const std::string name = "self_attention.";
    const std::string from = hub + "self_attn.";
    const Index tp = grid.tp;
    out.push_back(norm("input_layernorm.weight", hub + "input_layernorm.weight", model.hidden));
    out.push_back(replicated(name + "linear_q_down_proj.weight",
                             whole(from + "q_a_proj.weight", model.query_rank, model.hidden)));
    out.push_back(norm(name + "linear_q_up_proj.layer_norm_weight", from + "q_a_layernorm.weight",
                       model.query_rank));
    out.push_back(row_split(name + "linear_q_up_proj.weight",
                            whole(from + "q_b_proj.weight", query_rows(model), model.query_rank),
                            tp, rank));
    out.push_back(replicated(
        name + "linear_kv_down_proj.weight",
        whole(from + "kv_a_proj_with_mqa.weight", model.key_rank + model.rope_dim, model.hidden)));
    out.push_back(norm(name + "linear_kv_up_proj.layer_norm_weight", from + "kv_a_layernorm.weight",
                       model.key_rank));
    out.push_back(row_split(name + "linear_kv_up_proj.weight",
                            whole(from + "kv_b_proj.weight", key_value_rows(model), model.key_rank),
                            tp, rank));
    out.push_back(column_split(
        name + "linear_proj.weight",
        whole(from + "o_proj.weight", model.hidden, model.heads * model.value_dim), tp, rank));
}

void add_expert_shards(const Model& model, const Grid& grid, const std::string& hub,
                       const Place& place, std::vector<Shard>& out) {
    const Index n = model.experts / grid.ep;
    for (Index expert = place.ep * n; expert < (place.ep + 1) * n; ++expert) {
        const std::size_t first = out.size();
        add_feed_forward_shards("mlp.experts.", expert_name(hub, expert), model, model.expert_ffn,
                                grid.etp, place.etp, out);
        for (std::size_t i = first; i < out.size(); ++i) {
            out[i].expert = expert;
        }
    }
}

}  // namespace

Model model_named(const std::string& name, Index layers, const Grid& grid) {
    const auto at = std::find_if(kModels.begin(), kModels.end(),
                                 [&](const auto& known) { return known.first == name; });
    if (at == kModels.end()) {
        throw Error(ErrorCode::usage, "--model is " + name + ", expected 671b, 1t or moe");
    }
    Model model = at->second;
    model.layers = layers == 0 ? model.layers : layers;
    const bool is_cut = model.heads % grid.tp == 0 && model.expert_ffn % grid.tp == 0 &&
                        model.experts % grid.ep == 0 && grid.tp % grid.etp == 0 &&
                        grid.ranks_per_stage() % grid.tp == 0 &&
                        (grid.ep == 1 || grid.ranks_per_stage() == grid.ep * grid.etp) &&
                        model.layers >= grid.stages();
    if (!is_cut) {
        throw Error(ErrorCode::usage, "the model " + name + " cannot be cut like this");
    }
    return model;
}

void add_latent_layer(const Model& model, Index layer, std::vector<HubTensor>& out) {
    add_layer(model, layer, false, out);
}

std::vector<Shard> latent_layer_shards(const Model& model, const Grid& grid, Index layer,
                                       const Place& place) {
    const std::string hub = layer_name(layer);
    std::vector<Shard> out;
    add_attention_shards(model, grid, hub, place.tp, out);
    const std::string feed_forward_norm = hub + "post_attention_layernorm.weight";
    if (is_dense(model, layer)) {
        out.push_back(norm("mlp.linear_fc1.layer_norm_weight", feed_forward_norm, model.hidden));
        add_feed_forward_shards("mlp.", hub + "mlp.", model, model.ffn, grid.tp, place.tp, out);
        return out;
    }
    out.push_back(norm("pre_mlp_layernorm.weight", feed_forward_norm, model.hidden));
    out.push_back(replicated("mlp.router.weight",
                             whole(hub + "mlp.gate.weight", model.experts, model.hidden)));
    out.push_back(
        norm("mlp.router.expert_bias", hub + "mlp.gate.e_score_correction_bias", model.experts));
    out.back().is_f32 = true;
    add_expert_shards(model, grid, hub, place, out);
    add_feed_forward_shards("mlp.shared_experts.", hub + "mlp.shared_experts.", model,
                            model.expert_ffn, grid.tp, place.tp, out);
    return out;
}

std::vector<HubTensor> module_tensors(const Model& model) {
    if (!model.has_experts()) {
        return hub_tensors(model);
    }
    Model ends = model;
    ends.layers = 0;
    std::vector<HubTensor> all = hub_tensors(ends);
    for (Index layer = 0; layer < model.layers; ++layer) {
        add_layer(model, layer, true, all);
    }
    return all;
}

std::vector<Band> module_rows(const HubTensor& tensor, Index begin, Index end) {
    const std::vector<Index>& shape = tensor.shape;
    std::vector<Band> bands;
    if (shape.size() < 3) {
        if (begin < end) {
            bands.push_back(
                rows(tensor.name, shape.size() == 2 ? shape[1] : 1, begin, end - begin));
        }
        return bands;
    }
    // "...mlp.experts.gate_up_proj" holds "...mlp.experts.0.gate_proj.weight" first.
    const std::size_t dot = tensor.name.rfind('.') + 1;
    const bool is_pair = tensor.name.substr(dot) == "gate_up_proj";
    for (Index expert = begin; expert < end; ++expert) {
        const std::string name = tensor.name.substr(0, dot) + std::to_string(expert) + ".";
        if (is_pair) {
            bands.push_back(whole(name + "gate_proj.weight", shape[1] / 2, shape[2]));
            bands.push_back(whole(name + "up_proj.weight", shape[1] / 2, shape[2]));
        } else {
            bands.push_back(whole(name + "down_proj.weight", shape[1], shape[2]));
        }
    }
    return bands;
}

}  // namespace shardweld::bench

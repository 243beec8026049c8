#include "model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "shardweld/error.hpp"

#include "cuts.hpp"

namespace shardweld::bench {

namespace {

constexpr Index kVocabMultiple = 128;

struct Dimensions {
    double below_gb;  ///< of 2-byte elements
    Index hidden;
    Index head_dim;
    Index vocab;
};

// The vocabularies of the small ones are no multiple of anything; 32000 is llama's.
constexpr std::array<Dimensions, 5> kDimensions = {{
    {0.05, 256, 32, 1003},
    {1, 1024, 64, 8003},
    {4, 2048, 128, 32000},
    {60, 4096, 128, 32000},
    {1e9, 8192, 128, 32000},
}};

Index elements_per_layer(const Model& model) {
    const Index attention = (2 * model.heads + 2 * model.groups) * model.head_dim * model.hidden;
    return attention + 3 * model.hidden * model.ffn + 2 * model.hidden;
}

/// Group by group: its query heads, its key head, its value head.
Shard qkv(const Model& model, const Grid& grid, const std::string& hub, Index rank) {
    const Index d = model.head_dim;
    const Index query_rows = model.heads / model.groups * d;
    const Index groups = model.groups / grid.tp;
    const Index n = groups * (query_rows + 2 * d);
    Chunk chunk{{rank * n, 0}, {n, model.hidden}, {}};
    for (Index group = rank * groups; group < (rank + 1) * groups; ++group) {
        const std::string attention = hub + "self_attn.";
        chunk.bands.push_back(
            rows(attention + "q_proj.weight", model.hidden, group * query_rows, query_rows));
        chunk.bands.push_back(rows(attention + "k_proj.weight", model.hidden, group * d, d));
        chunk.bands.push_back(rows(attention + "v_proj.weight", model.hidden, group * d, d));
    }
    return {"self_attention.linear_qkv.weight", {grid.tp * n, model.hidden}, {chunk}, false};
}

}  // namespace

Model model_of_size(double bytes, DType dtype, const Grid& grid) {
    const double elements = bytes / static_cast<double>(size_of(dtype));
    const auto dimensions =
        std::find_if(kDimensions.begin(), kDimensions.end(),
                     [&](const auto& d) { return 2 * elements < d.below_gb * 1e9; });
    if (dimensions == kDimensions.end()) {
        throw Error(ErrorCode::usage, "the model is too large");
    }
    Model model;
    model.hidden = dimensions->hidden;
    model.head_dim = dimensions->head_dim;
    model.heads = model.hidden / model.head_dim;
    model.groups = std::max<Index>({model.heads / 4, 2, grid.tp});
    model.ffn = model.hidden / 2 * 7;
    model.vocab = dimensions->vocab;
    if (model.heads % model.groups != 0 || model.groups % grid.tp != 0 ||
        model.ffn % grid.tp != 0) {
        throw Error(ErrorCode::usage,
                    "a model with " + std::to_string(model.heads) +
                        " heads cannot be split over tp = " + std::to_string(grid.tp));
    }
    const auto ends = static_cast<double>(2 * model.vocab * model.hidden);
    const auto wanted = (elements - ends) / static_cast<double>(elements_per_layer(model));
    const Index stages = grid.stages();
    const Index per_stage = static_cast<Index>(
        std::ceil(std::max(std::round(wanted), 1.0) / static_cast<double>(stages)));
    model.layers = per_stage * stages;
    return model;
}

Index padded_vocab(const Model& model, const Grid& grid) {
    const Index multiple = kVocabMultiple * grid.tp;
    return (model.vocab + multiple - 1) / multiple * multiple;
}

Index Grid::ranks_per_stage() const {
    return std::max(tp, ep * etp);
}

Place place_of(const Grid& grid, Index rank) {
    return {rank % grid.tp, rank % grid.etp, rank / grid.etp % grid.ep, rank / grid.tp,
            rank / (grid.etp * grid.ep)};
}

std::vector<HubTensor> hub_tensors(const Model& model) {
    const Index query_rows = model.heads * model.head_dim;
    const Index key_rows = model.groups * model.head_dim;
    std::vector<HubTensor> all = {{"model.embed_tokens.weight", {model.vocab, model.hidden}},
                                  {"model.norm.weight", {model.hidden}},
                                  {"lm_head.weight", {model.vocab, model.hidden}}};
    for (Index layer = 0; layer < model.layers; ++layer) {
        const std::string name = layer_name(layer);
        if (model.has_experts()) {
            add_latent_layer(model, layer, all);
            continue;
        }
        all.push_back({name + "input_layernorm.weight", {model.hidden}});
        all.push_back({name + "self_attn.q_proj.weight", {query_rows, model.hidden}});
        all.push_back({name + "self_attn.k_proj.weight", {key_rows, model.hidden}});
        all.push_back({name + "self_attn.v_proj.weight", {key_rows, model.hidden}});
        all.push_back({name + "self_attn.o_proj.weight", {model.hidden, query_rows}});
        all.push_back({name + "post_attention_layernorm.weight", {model.hidden}});
        all.push_back({name + "mlp.gate_proj.weight", {model.ffn, model.hidden}});
        all.push_back({name + "mlp.up_proj.weight", {model.ffn, model.hidden}});
        all.push_back({name + "mlp.down_proj.weight", {model.hidden, model.ffn}});
    }
    return all;
}

std::vector<Shard> layer_shards(const Model& model, const Grid& grid, Index layer,
                                const Place& place) {
    if (model.has_experts()) {
        return latent_layer_shards(model, grid, layer, place);
    }
    const std::string hub = layer_name(layer);
    const Index rank = place.tp;
    const Index query_rows = model.heads * model.head_dim;
    return {
        column_split("self_attention.linear_proj.weight",
                     rows(hub + "self_attn.o_proj.weight", query_rows, 0, model.hidden), grid.tp,
                     rank),
        qkv(model, grid, hub, rank),
        norm("self_attention.linear_qkv.layer_norm_weight", hub + "input_layernorm.weight",
             model.hidden),
        gate_up_split("mlp.linear_fc1.weight",
                      rows(hub + "mlp.gate_proj.weight", model.hidden, 0, model.ffn),
                      rows(hub + "mlp.up_proj.weight", model.hidden, 0, model.ffn), grid.tp, rank),
        norm("mlp.linear_fc1.layer_norm_weight", hub + "post_attention_layernorm.weight",
             model.hidden),
        column_split("mlp.linear_fc2.weight",
                     rows(hub + "mlp.down_proj.weight", model.ffn, 0, model.hidden), grid.tp, rank),
    };
}

Shard embedding_shard(const Model& model, const Grid& grid, Index rank) {
    return row_split("embedding.word_embeddings.weight",
                     rows("model.embed_tokens.weight", model.hidden, 0, padded_vocab(model, grid)),
                     grid.tp, rank);
}

Shard head_shard(const Model& model, const Grid& grid, Index rank) {
    return row_split("output_layer.weight",
                     rows("lm_head.weight", model.hidden, 0, padded_vocab(model, grid)), grid.tp,
                     rank);
}

Shard final_norm_shard(const Model& model) {
    return norm("decoder.final_layernorm.weight", "model.norm.weight", model.hidden);
}

}  // namespace shardweld::bench

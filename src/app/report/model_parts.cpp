#include "model_parts.hpp"

#include <algorithm>
#include <array>

namespace shardweld::app {

namespace {

struct PartWord {
    std::string_view text;
    std::string_view part;
};

// The first that is in a name decides: "shared_expert_gate" is no expert's and
// "linear_qkv.layer_norm_weight" no projection.
constexpr std::array<PartWord, 34> kWords = {{{"lora_", "adapter"},
                                              {"visual", "vision"},
                                              {"vision", "vision"},
                                              {"image", "vision"},
                                              {"multi_modal", "vision"},
                                              {"audio", "audio"},
                                              {"norm", "norms"},
                                              {"ln_", "norms"},
                                              {"shared_expert", "shared experts"},
                                              {"router", "router"},
                                              {"expert_bias", "router"},
                                              {"e_score", "router"},
                                              {"mlp.gate.", "router"},
                                              {"moe.gate.", "router"},
                                              {"experts", "experts"},
                                              {"block_sparse_moe.gate", "router"},
                                              {"embed", "embedding"},
                                              {"wte.", "embedding"},
                                              {"wpe.", "embedding"},
                                              {"lm_head", "head"},
                                              {"output_layer", "head"},
                                              {"score.", "head"},
                                              {"classifier", "head"},
                                              {"attn", "attention"},
                                              {"attention", "attention"},
                                              {"conv1d", "attention"},
                                              {"mlp", "mlp"},
                                              {"feed_forward", "mlp"},
                                              {"ffn", "mlp"},
                                              {"dense_h_to_4h", "mlp"},
                                              {"dense_4h_to_h", "mlp"},
                                              {"linear_fc", "mlp"},
                                              {"gate_proj", "mlp"},
                                              {"up_proj", "mlp"}}};

void add_to(std::vector<PartRow>& rows, std::string_view name, const PartRow& more) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const PartRow& known) { return known.name == name; });
    if (row == rows.end()) {
        row = rows.insert(rows.end(), {std::string(name), 0, 0, 0});
    }
    row->n_tensors += more.n_tensors;
    row->elements += more.elements;
    row->bytes += more.bytes;
}

std::vector<PartRow> sorted(std::vector<PartRow> rows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const PartRow& a, const PartRow& b) { return a.bytes > b.bytes; });
    return rows;
}

}  // namespace

std::string_view part_of(std::string_view tensor) {
    for (const PartWord& word : kWords) {
        if (tensor.find(word.text) != std::string_view::npos) {
            return word.part;
        }
    }
    return "other";
}

void ModelParts::add(std::string_view tensor, std::size_t n_tensors, DType dtype, Bytes bytes) {
    const PartRow more{"", n_tensors, static_cast<Index>(bytes / size_of(dtype)), bytes};
    add_to(parts_, part_of(tensor), more);
    add_to(dtypes_, torch_name(dtype), more);
}

std::vector<PartRow> ModelParts::parts() const {
    return sorted(parts_);
}

std::vector<PartRow> ModelParts::dtypes() const {
    return sorted(dtypes_);
}

PartRow ModelParts::all() const {
    std::vector<PartRow> sum{{"", 0, 0, 0}};
    for (const PartRow& row : dtypes_) {
        add_to(sum, "", row);
    }
    return sum.front();
}

}  // namespace shardweld::app

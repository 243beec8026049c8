// What must divide by the number of devices. Sources: vLLM config/model.py
// (verify_with_parallel_config), model_executor/layers/linear.py (QKVParallelLinear,
// MergedColumnParallelLinear, RowParallelLinear), layers/quantization/utils/fp8_utils.py
// (validate_fp8_block_shape); SGLang's files of the same names.
#include <algorithm>
#include <array>

#include "core/config_fields.hpp"
#include "core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

/// How a projection is cut over devices.
enum class Cut { rows, key_rows, columns };

struct Projection {
    std::string_view kind;
    Cut cut;
};

constexpr std::array<Projection, 13> kProjections = {{{"q_proj", Cut::rows},
                                                      {"k_proj", Cut::key_rows},
                                                      {"v_proj", Cut::key_rows},
                                                      {"o_proj", Cut::columns},
                                                      {"gate_proj", Cut::rows},
                                                      {"up_proj", Cut::rows},
                                                      {"gate_up_proj", Cut::rows},
                                                      {"down_proj", Cut::columns},
                                                      {"w1", Cut::rows},
                                                      {"w3", Cut::rows},
                                                      {"w2", Cut::columns},
                                                      {"q_b_proj", Cut::rows},
                                                      {"kv_b_proj", Cut::rows}}};

const Projection* projection_of(const Module& module) {
    const auto* const at = std::ranges::find(kProjections, module.kind(), &Projection::kind);
    // Towers of images and sounds are repeated on each device.
    const bool is_tower = std::ranges::any_of(
        kTowers, [&](const Tower& tower) { return belongs_to(tower, module.name); });
    return at == kProjections.end() || is_tower ? nullptr : at;
}

/// Extents that each device gets, of the axis that is cut; the other stays whole.
struct Share {
    Index whole = 0;
    Index parts = 1;
    Index block = 1;  ///< its part must be a multiple of it

    [[nodiscard]] bool divides() const { return whole % parts == 0; }
    [[nodiscard]] bool keeps_blocks() const { return (whole / parts) % block == 0; }
};

/// Fewer heads of keys than devices are repeated.
Index parts_of_keys(const ModelUnderCheck& model) {
    const auto heads = model.number("num_key_value_heads");
    return heads && *heads > 0 ? std::min(*heads, model.request.tensor_parallel)
                               : model.request.tensor_parallel;
}

Share share_of(const ModelUnderCheck& model, const Module& module, const Projection& projection,
               std::pair<Index, Index> extents) {
    const bool is_columns = projection.cut == Cut::columns;
    Share share{is_columns ? extents.second : extents.first, projection.cut == Cut::key_rows
                                                                 ? parts_of_keys(model)
                                                                 : model.request.tensor_parallel};
    // Columns that stay whole may end in a part of a block.
    if (module.is_quantised() && !(is_columns && share.parts == 1)) {
        const Group* const found = model.scheme.group_of(module.name);
        const Group group = found == nullptr ? Group() : *found;
        const auto block = is_columns
                               ? (group.block_columns ? group.block_columns : group.group_size)
                               : group.block_rows;
        share.block = std::max<Index>(block.value_or(1), 1);
    }
    return share;
}

void look_at_heads(const ModelUnderCheck& model, Findings& findings) {
    const Index devices = model.request.tensor_parallel;
    const auto heads = model.number("num_attention_heads");
    if (heads && *heads > 0 && *heads % devices != 0) {
        findings.fatal(std::to_string(*heads) + " attention heads do not divide by " +
                           std::to_string(devices) + " devices",
                       "choose a --tp that divides the heads, and more stages (--pp)");
    }
    const auto keys = model.number("num_key_value_heads");
    if (keys && *keys > 0 && *keys % devices != 0 && devices % *keys != 0) {
        findings.fatal(std::to_string(*keys) + " heads of keys and values neither divide by " +
                           std::to_string(devices) +
                           " devices nor fit them a whole number of times",
                       "choose another --tp");
    }
}

void look_at_extents(const ModelUnderCheck& model, Findings& findings) {
    std::vector<std::string> uneven;
    std::vector<std::string> broken;
    Share cut;
    for (const auto& [name, module] : model.modules) {
        const Projection* const projection = projection_of(module);
        const auto extents = module.extents(model.scheme);
        if (projection == nullptr || !extents) {
            continue;
        }
        const Share share = share_of(model, module, *projection, *extents);
        if (!share.divides()) {
            uneven.push_back(name);
        } else if (!share.keeps_blocks()) {
            cut = broken.empty() ? share : cut;
            broken.push_back(name);
        }
    }
    findings.fatal_for(
        uneven,
        "weights do not divide by " + std::to_string(model.request.tensor_parallel) + " devices: ",
        "choose another --tp, or expert parallelism for experts");
    findings.fatal_for(broken,
                       "a device would get " + std::to_string(cut.whole / cut.parts) + " of " +
                           std::to_string(cut.whole) + ", which cuts blocks of " +
                           std::to_string(cut.block) + " that share a scale: ",
                       "choose another --tp, or expert parallelism for experts");
}

void look_at_stages(const ModelUnderCheck& model, Findings& findings) {
    const auto layers = model.number("num_hidden_layers");
    if (layers && model.request.pipeline_parallel > *layers) {
        findings.fatal(std::to_string(*layers) + " layers cannot fill " +
                           std::to_string(model.request.pipeline_parallel) + " stages",
                       "choose a smaller --pp");
    }
}

}  // namespace

constexpr auto kParallelTable = std::to_array<Rule>({
    {"heads", kServers, look_at_heads, "heads divide by --tp; heads of keys may be repeated",
     "vLLM config/model.py and QKVParallelLinear, read"},
    {"extents", kServers, look_at_extents,
     "rows or columns of each projection divide by --tp, and blocks that share a scale stay "
     "whole",
     "vLLM's linear layers and validate_fp8_block_shape, read"},
    {"stages", kServers, look_at_stages, "there are as many layers as stages",
     "vLLM distributed/utils.py, read"},
});
const std::span<const Rule> kParallelRules = kParallelTable;

}  // namespace shardweld::loaders

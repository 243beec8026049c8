// quantization_config against the tensors: what loads wrong without a word, and what is refused.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/text.hpp"

#include "known_names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

namespace {

bool is_embedding(const Module& module) {
    return is_one_of("embed_tokens wte wpe word_embeddings embed_in", module.kind());
}

/// A tensor that is no plain weight, in whatever encoding; "" for none.
std::string quantised_tensor(const ModelUnderCheck& model) {
    for (const auto& [name, tensor] : model.weights.tensors) {
        const bool is_table = name.ends_with("_blocks") && tensor.dtype == DType::u8;
        const bool is_weight = name.ends_with("weight") || name.ends_with("_proj");
        if (is_table || (is_weight && is_codes(tensor.dtype))) {
            return name;
        }
    }
    const auto at = std::ranges::find_if(
        model.modules, [](const auto& entry) { return entry.second.is_quantised(); });
    return at == model.modules.end() ? "" : at->first;
}

/// Where quantisers that write no quantization_config describe what they did.
std::string statement_beside(const Directory& directory) {
    for (const char* name : {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
        if (directory.files.contains(name)) {
            return name;
        }
    }
    return "";
}

void tell_unstated(const ModelUnderCheck& model, const std::string& tensor, Findings& findings) {
    const std::string beside = statement_beside(model.directory);
    if (!beside.empty() && !model.is_for(Loader::transformers)) {
        findings.doubtful(
            printable(tensor) + " is quantised as " + beside + " says, which is not checked here",
            "try it with the loader itself");
        return;
    }
    findings.fatal(
        "tensors are quantised (" + printable(tensor) +
            "), but config.json has no quantization_config",
        beside.empty()
            ? "the raw codes would be taken for weights: add it, or write the model again"
            : "transformers does not read " + beside + ": serve it with vLLM");
}

/// Methods that transformers has code for; of servers none is said to be unknown.
bool knows_method(const ModelUnderCheck& model) {
    return !model.is_for(Loader::transformers) || quantised_tensor(model).empty() ||
           is_one_of(
               "aqlm auto-round awq bitnet bitsandbytes bitsandbytes_4bit bitsandbytes_8bit "
               "compressed-tensors eetq fbgemm_fp8 fouroversix fp8 fp_quant gemma gguf gptq higgs "
               "hqq metal mxfp4 mxfp8 nvfp4 quanto quark sinq spqr torchao vptq",
               model.scheme.method_text);
}

void look_for_statement(const ModelUnderCheck& model, Findings& findings) {
    const std::string tensor = quantised_tensor(model);
    const std::string method =
        "quantization_config (quant_method " + printable(model.scheme.method_text) + ")";
    if (model.scheme.method == Method::none && !tensor.empty()) {
        tell_unstated(model, tensor, findings);
    } else if (model.scheme.method == Method::other && model.scheme.method_text.empty()) {
        findings.add(model.is_for(Loader::transformers),
                     "quantization_config of config.json has no quant_method",
                     "transformers refuses it: add it");
    } else if (model.scheme.method == Method::other && !knows_method(model)) {
        findings.fatal(
            "transformers does not know the " + method + " of config.json",
            "the raw codes would be taken for weights: serve it with the program that it "
            "was made for");
    } else if (model.scheme.method == Method::other) {
        findings.doubtful(method + " is not checked here" +
                              (tensor.empty() ? ", and no tensor is quantised in a form known here"
                                              : ": " + printable(tensor) + " and its like"),
                          "try it with the loader itself");
    } else if (model.scheme.method != Method::none && tensor.empty() &&
               !model.weights.tensors.empty() && model.weights.is_whole) {
        findings.add(!model.is_for(Loader::transformers),
                     "config.json has a " + method + ", but no tensor is quantised",
                     "remove quantization_config");
    }
}

/// The names under which the loader looks for the scale of a weight.
std::vector<std::string_view> scale_names(const ModelUnderCheck& model, const Module& module) {
    const Group* const group = model.scheme.group_of(module.name);
    if (model.scheme.method == Method::compressed_tensors) {
        return {"weight_scale"};
    }
    if (model.is_for(Loader::transformers) || (group != nullptr && group->block_rows)) {
        return {"weight_scale_inv", "scale"};
    }
    return {"weight_scale", "scale"};
}

void look_for_scales(const ModelUnderCheck& model, Findings& findings) {
    if (!model.scheme.is_known() || model.scheme.method == Method::none) {
        return;
    }
    std::vector<std::string> alone;
    std::vector<std::string> misnamed;
    std::string_view wanted;
    for (const auto& [name, module] : model.modules) {
        const bool needs_one = module.packed != nullptr || module.has_codes();
        if (!needs_one || !module.other.empty()) {
            continue;
        }
        const auto names = scale_names(model, module);
        const Group* const group = model.scheme.group_of(name);
        const bool needs_global = group != nullptr && group->strategy == "tensor_group";
        if (module.scale == nullptr || (needs_global && module.global == nullptr)) {
            alone.push_back(name);
        } else if (std::ranges::find(names, module.scale_name) == names.end()) {
            misnamed.push_back(name + "." + std::string(module.scale_name));
            wanted = names.front();
        }
    }
    constexpr std::string_view kBlocks = "_blocks";
    for (const auto& [name, tensor] : model.weights.tensors) {
        if (name.ends_with(kBlocks) && tensor.dtype == DType::u8 &&
            !model.weights.tensors.contains(name.substr(0, name.size() - kBlocks.size()) +
                                            "_scales")) {
            alone.push_back(name);
        }
    }
    findings.fatal_for(alone, "quantised weights have no scales: ",
                       "write the model again, or copy all of its files");
    if (!misnamed.empty()) {
        findings.fatal("scales are stored as " + first_of(misnamed) + ", where " +
                           std::string(name_of(model.request.loader)) + " reads " +
                           std::string(wanted) + " for quant_method " +
                           printable(model.scheme.method_text),
                       "rename them, or state the quantization_config that they were made for");
    }
}

Index blocks(Index extent, Index block) {
    return extent / block + (extent % block == 0 ? 0 : 1);
}

bool is_cut(Index extent, Index block) {
    return extent % block != 0 && extent > block;
}

/// transformers derives the blocks from the grid of scales; others take them from config.json.
void look_at_blocks(const ModelUnderCheck& model, Findings& findings) {
    std::vector<std::string> wrong;
    std::vector<std::string> misread;
    for (const auto& [name, module] : model.modules) {
        const Group* const group = model.scheme.group_of(name);
        const auto extents = module.extents(model.scheme);
        if (module.scale == nullptr || !extents || module.packed != nullptr || group == nullptr ||
            !group->block_rows || module.weight->dtype != DType::f8_e4m3) {
            continue;
        }
        const std::vector<Index> grid = {blocks(extents->first, *group->block_rows),
                                         blocks(extents->second, *group->block_columns)};
        if (module.scale->shape != grid) {
            wrong.push_back(name + " " + shape_text(module.scale->shape) + ", not " +
                            shape_text(grid));
        } else if (is_cut(extents->first, *group->block_rows) ||
                   is_cut(extents->second, *group->block_columns)) {
            misread.push_back(name);
        }
    }
    findings.fatal_for(wrong, "scales are not one for each block that quantization_config states: ",
                       "correct weight_block_size, or write the model again");
    if (!misread.empty() && model.scheme.method == Method::fp8 &&
        model.is_for(Loader::transformers)) {
        findings.fatal("blocks at an edge are partial: " + first_of(misread),
                       "transformers would read other blocks, without a word: leave these weights "
                       "in bf16, or use compressed-tensors' blocks");
    }
}

/// Scales of a weight whose columns share one by groups, or by rows.
std::vector<Index> scales_of(const Group& group, std::pair<Index, Index> extents) {
    const Index size = group.strategy == "channel" ? 0 : group.group_size.value_or(0);
    return {extents.first, size > 0 ? blocks(extents.second, size) : Index{1}};
}

/// compressed-tensors' strategies by which each row has scales of its own.
bool has_scales_by_rows(const Group* group) {
    return group != nullptr && is_one_of("channel group tensor_group", group->strategy);
}

/// Integers: how many rows and columns there are, and scales for groups of columns.
void look_at_packed(const ModelUnderCheck& model, Findings& findings) {
    std::vector<std::string> shapeless;
    std::vector<std::string> wrong;
    for (const auto& [name, module] : model.modules) {
        const Group* const group = model.scheme.group_of(name);
        const auto extents = module.extents(model.scheme);
        if (!module.is_quantised() || !extents || !has_scales_by_rows(group)) {
            continue;
        }
        if (module.packed != nullptr && module.packed->dtype == DType::i32 &&
            !model.weights.tensors.contains(name + ".weight_shape")) {
            shapeless.push_back(name);
        }
        if (module.scale != nullptr && module.scale->shape != scales_of(*group, *extents)) {
            wrong.push_back(name + " " + shape_text(module.scale->shape) + ", not " +
                            shape_text(scales_of(*group, *extents)));
        }
    }
    findings.fatal_for(shapeless, "packed weights have no weight_shape: ",
                       "write the model again, or copy all of its files");
    findings.fatal_for(wrong, "scales are not one for each group of columns: ",
                       "correct group_size, or write the model again");
}

/// What the groups of compressed-tensors say of what is stored.
void look_at_groups(const ModelUnderCheck& model, Findings& findings) {
    std::vector<std::string> alone;
    std::vector<std::string> misread;
    for (const auto& [name, module] : model.modules) {
        const Group* const group = model.scheme.group_of(name);
        if (!module.is_quantised() || !module.other.empty() || model.scheme.ignores(name)) {
            continue;
        }
        if (model.scheme.is_in_no_group(name)) {
            alone.push_back(name);
        } else if (group != nullptr && module.has_codes() &&
                   (group->num_bits != 8 ||
                    group->is_float != (module.weight->dtype != DType::i8))) {
            misread.push_back(name);
        } else if (group != nullptr && !group->group_size &&
                   (group->strategy == "group" || group->strategy == "tensor_group")) {
            misread.push_back(name + " (no group_size)");
        }
    }
    findings.fatal_for(
        alone, "quantised layers belong to no group of quantization_config: ",
        "the raw codes would be taken for weights: add them to the targets of a group");
    findings.fatal_for(misread,
                       "num_bits, type or group_size of quantization_config is not that of the "
                       "stored codes: ",
                       "the weights would be wrong: correct the group's `weights`");
}

void look_at_status(const ModelUnderCheck& model, Findings& findings) {
    if (model.scheme.method != Method::compressed_tensors) {
        return;
    }
    if (model.is_for(Loader::transformers) && model.scheme.status != "compressed" &&
        !quantised_tensor(model).empty()) {
        findings.fatal("quantization_config does not say quantization_status \"compressed\"",
                       "the weights would be wrong, without a word: add it");
    }
    look_at_groups(model, findings);
    std::vector<std::string> ignored;
    for (const auto& [name, module] : model.modules) {
        const Group* const group = model.scheme.group_of(name);
        if (module.global != nullptr && group != nullptr && group->strategy != "tensor_group") {
            ignored.push_back(name);
        }
    }
    findings.fatal_for(ignored,
                       "weights have a global scale, but quantization_config says no strategy "
                       "tensor_group: ",
                       "the global scale would be ignored: add it");
}

/// Whether a plain weight is one that is quantised where nothing says otherwise: of a linear layer
/// as the family has it, else one whose like is quantised in other layers.
bool should_be_quantised(const ModelUnderCheck& model, const Module& module,
                         const std::set<std::string_view>& quantised_kinds) {
    const auto known = model.directory.expected.find(module.name + ".weight");
    const bool is_linear = known == model.directory.expected.end()
                               ? quantised_kinds.contains(module.kind())
                               : known->second.is_linear;
    return !is_embedding(module) && (is_linear || module.kind() == "lm_head") &&
           model.scheme.group_of(module.name) != nullptr;
}

/// vLLM and its kin quantise no head unless its name is a target.
bool is_head_that_stays(const ModelUnderCheck& model, const Module& module) {
    return module.kind() == "lm_head" && !model.is_for(Loader::transformers);
}

void look_at_list(const ModelUnderCheck& model, Findings& findings) {
    const bool is_compressed = model.scheme.method == Method::compressed_tensors;
    if ((!is_compressed && model.scheme.method != Method::fp8) || quantised_tensor(model).empty()) {
        return;
    }
    std::set<std::string_view> quantised_kinds;
    for (const auto& [name, module] : model.modules) {
        if (module.is_quantised()) {
            quantised_kinds.insert(module.kind());
        }
    }
    std::vector<std::string> unlisted;
    std::vector<std::string> listed_too;
    for (const auto& [name, module] : model.modules) {
        const bool is_ignored = model.scheme.ignores(name);
        if (module.is_quantised() && is_ignored) {
            listed_too.push_back(name);
        } else if (!module.is_quantised() && !is_ignored && !is_head_that_stays(model, module) &&
                   should_be_quantised(model, module, quantised_kinds)) {
            unlisted.push_back(name);
        }
    }
    // transformers goes by the scales where there are blocks of fp8.
    if (!unlisted.empty() && (is_compressed || !model.is_for(Loader::transformers))) {
        findings.fatal(
            "layers that are not quantised are not listed as such: " + first_of(unlisted),
            "add them to the list of ignored modules in quantization_config");
    }
    findings.fatal_for(listed_too, "quantised layers are listed as left alone: ",
                       "remove them from the list of ignored modules");
}

/// "model.layers.0.mlp.experts." of one expert's projection; "" for other modules.
std::string experts_of(const std::string& name) {
    constexpr std::string_view kExperts = ".experts.";
    const std::size_t at = name.find(kExperts);
    return at == std::string::npos ? "" : name.substr(0, at + kExperts.size());
}

/// All loaders keep the experts of a layer in one tensor.
void look_at_experts(const ModelUnderCheck& model, Findings& findings) {
    std::map<std::string, std::pair<std::string, std::string>>
        seen;  // a quantised one, a plain one
    std::vector<std::string> mixed;
    for (const auto& [name, module] : model.modules) {
        const std::string layer = experts_of(name);
        if (layer.empty()) {
            continue;
        }
        auto& [quantised, plain] = seen[layer];
        std::string& own = module.is_quantised() ? quantised : plain;
        const bool is_first = own.empty();
        own = is_first ? name : own;
        if (is_first && !quantised.empty() && !plain.empty()) {
            mixed.push_back(plain + " (beside " + quantised + ")");
        }
    }
    findings.fatal_for(mixed, "experts of one layer are quantised in part: not ",
                       "quantise all experts of a layer, or none");
}

/// Weights that servers join into one matrix must be quantised all, or none of them.
void look_at_fused(const ModelUnderCheck& model, Findings& findings) {
    using Group = std::vector<std::string_view>;
    static const std::vector<Group> groups = {{"q_proj", "k_proj", "v_proj"},
                                              {"gate_proj", "up_proj"},
                                              {"q_a_proj", "kv_a_proj_with_mqa"},
                                              {"w1", "w3"}};
    const auto& modules = model.modules;
    std::vector<std::string> mixed;
    for (const auto& [name, module] : modules) {
        for (const Group& group : groups) {
            if (module.kind() != group.front()) {
                continue;
            }
            const std::string above = name.substr(0, name.size() - group.front().size());
            const bool is_quantised = module.is_quantised();
            const bool is_mixed = std::ranges::any_of(group, [&](std::string_view other) {
                const auto at = modules.find(above + std::string(other));
                return at != modules.end() && at->second.is_quantised() != is_quantised;
            });
            if (is_mixed) {
                mixed.push_back(name);
            }
        }
    }
    if (!mixed.empty()) {
        findings.fatal("only a part of what is joined into one matrix is quantised: " +
                           first_of(mixed) + " and its neighbours",
                       "quantise all of them, or none");
    }
}

void look_at_expert_scales(const ModelUnderCheck& model, Findings& findings) {
    const auto at = std::ranges::find_if(model.modules, [](const auto& entry) {
        return entry.second.global != nullptr && !experts_of(entry.first).empty();
    });
    if (at != model.modules.end() && model.scheme.is_known()) {
        findings.fatal(
            "experts have global scales, which transformers ignores: " + printable(at->first),
            "their values would be wrong, without a word: serve it with vLLM");
    }
}

}  // namespace

constexpr auto kQuantisationTable = std::to_array<Rule>({
    {"quantised", kHub, look_for_statement,
     "`quantization_config` is there if, and only if, tensors are quantised; methods that are "
     "not known here are not checked",
     "transformers 5.24, run: raw codes as weights; bf16 with a config loads there only"},
    {"scales", kHub, look_for_scales,
     "quantised weights have scales, by the name that the loader reads",
     "transformers 5.24, run: weights without them are random; vLLM's, SGLang's and TGI's "
     "fp8 layers, read"},
    {"blocks", kHub, look_at_blocks,
     "one scale for each block of `weight_block_size`, no partial blocks for transformers",
     "transformers 5.24, run: 192 rows in two blocks are read as blocks of 96"},
    {"packed", kHub, look_at_packed,
     "packed integers have `weight_shape`, and a scale for each row and `group_size` columns",
     "compressed-tensors 0.20, run: ValueError without the shape"},
    {"status", kHub, look_at_status,
     "compressed-tensors: `quantization_status` for transformers, and `strategy` with global "
     "scales",
     "transformers 5.24 with compressed-tensors 0.20, run: wrong values, no error"},
    {"ignored", kHub, look_at_list,
     "layers that stay as they are, and only they, are on the list of ignored modules",
     "transformers 5.24, run: a head that is not listed is random; vLLM, reported by users"},
    {"experts", kHub, look_at_experts, "of a layer's experts all are quantised, or none",
     "transformers 5.24, run: the others are random; vLLM's FusedMoE, read"},
    {"fused", kServers, look_at_fused, "q, k, v and gate, up are quantised together or not at all",
     "vLLM's fused layers, read"},
    {"expert-scales", kPython, look_at_expert_scales, "no experts in NVFP4",
     "transformers 5.24, run: global scales are not loaded"},
});
const std::span<const Rule> kQuantisationRules = kQuantisationTable;

}  // namespace shardweld::loaders

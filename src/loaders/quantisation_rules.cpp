// quantization_config against the tensors: what loads wrong without a word, and what is refused.
#include <algorithm>
#include <array>

#include "shardweld/core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

bool is_eight_bit_float(const StoredTensor& tensor) {
    return tensor.dtype == DType::f8_e4m3 || tensor.dtype == DType::f8_e5m2;
}

bool is_quantised(const std::string& name, const StoredTensor& tensor) {
    return name.ends_with(".weight_packed") || name.ends_with("_blocks") ||
           (name.ends_with("weight") && is_eight_bit_float(tensor));
}

bool has_quantised(const Directory& directory) {
    return std::ranges::any_of(directory.tensors, [](const auto& entry) {
        return is_quantised(entry.first, entry.second);
    });
}

bool is_embedding(const Module& module) {
    constexpr std::array<std::string_view, 5> kNames = {"embed_tokens", "wte", "wpe",
                                                        "word_embeddings", "embed_in"};
    return std::ranges::find(kNames, module.kind()) != kNames.end();
}

void look_for_statement(const Case& model, Findings& findings) {
    const bool is_stored = has_quantised(model.directory);
    if (model.scheme.method == Method::none && is_stored) {
        findings.fatal(
            "tensors are quantised, but config.json has no quantization_config",
            "the raw codes would be taken for weights: add it, or write the model again");
    } else if (model.scheme.method != Method::none && !is_stored) {
        const std::string text = "config.json has a quantization_config (" +
                                 printable(model.scheme.method_text) +
                                 "), but no tensor is quantised";
        const std::string hint = "remove quantization_config";
        if (model.request.loader == Loader::transformers) {
            findings.doubtful(text, hint);
        } else {
            findings.fatal(text, hint);
        }
    }
    if (model.scheme.method == Method::other) {
        findings.doubtful(
            "quantisation " + printable(model.scheme.method_text) + " is none that is checked here",
            "try it with the loader itself");
    }
}

void look_for_scales(const Case& model, Findings& findings) {
    std::vector<std::string> alone;
    for (const auto& [name, module] : model.modules) {
        const bool needs_one = module.packed != nullptr ||
                               (module.weight != nullptr && is_eight_bit_float(*module.weight));
        if (needs_one && module.scale == nullptr) {
            alone.push_back(name);
        }
    }
    for (const auto& [name, tensor] : model.directory.tensors) {
        constexpr std::string_view kBlocks = "_blocks";
        if (name.ends_with(kBlocks) && tensor.dtype == DType::u8 &&
            !model.directory.tensors.contains(name.substr(0, name.size() - kBlocks.size()) +
                                              "_scales")) {
            alone.push_back(name);
        }
    }
    if (!alone.empty()) {
        findings.fatal("quantised weights have no scales: " + first_of(alone),
                       "write the model again, or copy all of its files");
    }
}

Index blocks(Index extent, Index block) {
    return extent / block + (extent % block == 0 ? 0 : 1);
}

/// transformers derives the blocks from the grid of scales; others take them from config.json.
void look_at_blocks(const Case& model, Findings& findings) {
    if (!model.scheme.block_rows) {
        return;
    }
    const Index rows = *model.scheme.block_rows;
    const Index columns = *model.scheme.block_columns;
    std::vector<std::string> wrong;
    std::vector<std::string> misread;
    for (const auto& [name, module] : model.modules) {
        const auto extents = module.extents(model.scheme);
        if (module.scale == nullptr || !extents || module.packed != nullptr) {
            continue;
        }
        const std::vector<Index> grid = {blocks(extents->first, rows),
                                         blocks(extents->second, columns)};
        if (module.scale->shape != grid) {
            wrong.push_back(name);
        } else if ((extents->first % rows != 0 && extents->first > rows) ||
                   (extents->second % columns != 0 && extents->second > columns)) {
            misread.push_back(name);
        }
    }
    if (!wrong.empty()) {
        findings.fatal("scales are not one for each block of " + std::to_string(rows) + " x " +
                           std::to_string(columns) + ": " + first_of(wrong),
                       "correct weight_block_size, or write the model again");
    }
    if (!misread.empty() && model.scheme.method == Method::fp8 &&
        model.request.loader == Loader::transformers) {
        findings.fatal("blocks at an edge are partial: " + first_of(misread),
                       "transformers would read other blocks, without a word: leave these weights "
                       "in bf16, or use compressed-tensors' blocks");
    }
}

/// Integers: how many rows and columns there are, and scales for groups of columns.
void look_at_packed(const Case& model, Findings& findings) {
    std::vector<std::string> shapeless;
    std::vector<std::string> wrong;
    for (const auto& [name, module] : model.modules) {
        const auto extents = module.extents(model.scheme);
        if (module.packed == nullptr || module.packed->dtype != DType::i32 || !extents) {
            continue;
        }
        if (!model.directory.tensors.contains(name + ".weight_shape")) {
            shapeless.push_back(name);
        }
        const auto group = model.scheme.strategy == "channel" ? 0 : model.scheme.group_size;
        const Index n_groups = group.value_or(0) > 0 ? blocks(extents->second, *group) : Index{1};
        if (module.scale != nullptr &&
            module.scale->shape != std::vector<Index>{extents->first, n_groups}) {
            wrong.push_back(name);
        }
    }
    if (!shapeless.empty()) {
        findings.fatal("packed weights have no weight_shape: " + first_of(shapeless),
                       "write the model again, or copy all of its files");
    }
    if (!wrong.empty()) {
        findings.fatal("scales are not one for each group of columns: " + first_of(wrong),
                       "correct group_size, or write the model again");
    }
}

void look_at_status(const Case& model, Findings& findings) {
    if (model.scheme.method == Method::compressed_tensors && model.scheme.status != "compressed") {
        findings.fatal("quantization_config does not say quantization_status \"compressed\"",
                       "the weights would be wrong, without a word: add it");
    }
    const bool has_global = std::ranges::any_of(model.directory.tensors, [](const auto& entry) {
        return entry.first.ends_with(".weight_global_scale");
    });
    if (has_global && model.scheme.strategy != "tensor_group") {
        findings.fatal(
            "weights have a global scale, but quantization_config says no strategy "
            "tensor_group",
            "the global scale would be ignored: add it");
    }
}

void look_at_list(const Case& model, Findings& findings) {
    if (model.scheme.method != Method::compressed_tensors && model.scheme.method != Method::fp8) {
        return;
    }
    std::vector<std::string> unlisted;
    std::vector<std::string> listed_too;
    for (const auto& [name, module] : model.modules) {
        const bool is_ignored = model.scheme.ignores(name);
        if (module.is_quantised() && is_ignored) {
            listed_too.push_back(name);
        } else if (!module.is_quantised() && !is_ignored && !is_embedding(module)) {
            unlisted.push_back(name);
        }
    }
    const bool is_python = model.request.loader == Loader::transformers;
    // transformers goes by the scales where there are blocks of fp8.
    if (!unlisted.empty() && !(is_python && model.scheme.method == Method::fp8)) {
        findings.fatal(
            "layers that are not quantised are not listed as such: " + first_of(unlisted),
            "add them to the list of ignored modules in quantization_config");
    }
    if (!listed_too.empty()) {
        findings.fatal("quantised layers are listed as left alone: " + first_of(listed_too),
                       "remove them from the list of ignored modules");
    }
}

/// What servers join into one matrix must be all quantised, or none of it.
void look_at_fused(const Case& model, Findings& findings) {
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
            const bool is_mixed = std::ranges::any_of(group, [&](std::string_view other) {
                const auto at = modules.find(above + std::string(other));
                return at != modules.end() && at->second.is_quantised() != module.is_quantised();
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

void look_at_expert_scales(const Case& model, Findings& findings) {
    const bool is_there = std::ranges::any_of(model.directory.tensors, [](const auto& entry) {
        return entry.first.ends_with(".weight_global_scale") &&
               entry.first.find(".experts.") != std::string::npos;
    });
    if (is_there) {
        findings.fatal("experts have global scales, which transformers 5.23 ignores",
                       "their values would be wrong, without a word: serve it with vLLM");
    }
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<Rule>& quantisation_rules() {
    static const std::vector<Rule> rules = {
        {"quantised", kHub, look_for_statement,
         "`quantization_config` is there if, and only if, tensors are quantised",
         "transformers 5.23, run: raw codes as weights; bf16 with a config loads there only"},
        {"scales", kHub, look_for_scales, "quantised weights have scales",
         "transformers 5.23, run: experts of blocks without scales are random"},
        {"blocks", kHub, look_at_blocks,
         "one scale for each block of `weight_block_size`, no partial blocks for transformers",
         "transformers 5.23, run: 192 rows in two blocks are read as blocks of 96"},
        {"packed", kHub, look_at_packed,
         "packed integers have `weight_shape`, and a scale for each row and `group_size` columns",
         "compressed-tensors 0.20, run: ValueError without the shape"},
        {"status", kHub, look_at_status,
         "compressed-tensors: `quantization_status`, and `strategy` with global scales",
         "transformers 5.23 with compressed-tensors 0.20, run: wrong values, no error"},
        {"ignored", kHub, look_at_list,
         "layers that stay as they are, and only they, are on the list of ignored modules",
         "transformers 5.23, run: a head that is not listed is random; vLLM, reported by users"},
        {"fused", kServers, look_at_fused,
         "q, k, v and gate, up are quantised together or not at all", "vLLM's fused layers, read"},
        {"expert-scales", kPython, look_at_expert_scales, "no experts in NVFP4",
         "transformers 5.23, run: global scales are not loaded"},
    };
    return rules;
}

}  // namespace shardweld::loaders

// A model in llama.cpp's form as GGML's types.
#include <set>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "hub_names.hpp"
#include "quantise.hpp"

namespace shardweld::plan {

namespace {

/// Names of the lines that `keep f32`.
std::set<std::string> names_kept(const Model& model) {
    std::set<std::string> names;
    for_each_hub_name(*model.recipe, *model.symbols, [&](const HubName& hub) {
        if (hub.line->keep == DType::f32) {
            names.insert(hub.name);
        }
        return true;
    });
    return names;
}

void require_floats(const Target& target) {
    const bool is_known = is_trained_in(target.dtype);
    if (!is_known || target.mix || target.fold) {
        throw Error(ErrorCode::unsupported,
                    target.name.text() + " is " +
                        (is_known ? "made of several checkpoints"
                                  : "of type " + safetensors_name(target.dtype)) +
                        ": it cannot be written as one of GGML's types",
                    "merge to safetensors with --dtype bf16 first, then merge that model to GGUF");
    }
}

/// The whole target as blocks; sums are those of fp32, which nothing rounds before.
void make_blocks(Target& target, Encoding encoding) {
    const EncodingFacts& facts = facts_of(encoding);
    const Index columns = target.shape.empty() ? 1 : target.shape.back();
    const Index rows = columns == 0 ? 0 : target.volume() / columns;
    Encode how;
    how.encoding = encoding;
    how.n_rows = rows;
    how.n_columns = columns;
    how.strip_rows = strip_rows_of(facts.tile_rows, columns);
    how.weight = target.add == 0 ? target.dtype : DType::f32;
    target.encode = how;
    target.dtype = facts.codes;
    if (!target.shape.empty()) {
        target.shape.own().back() = facts.code_columns(columns);
    }
}

}  // namespace

Quantisation quantise_ggml(std::vector<Target>& targets, const Model& model, Encoding encoding,
                           const std::function<bool(const std::string&)>& is_ignored) {
    const std::set<std::string> kept = names_kept(model);
    Quantisation result;
    result.encoding = encoding;
    std::vector<std::string> odd;
    for (Target& target : targets) {
        require_floats(target);
        Encoding type = encoding;
        const std::string name = target.name;
        if (target.shape.size() <= 1 || name.ends_with("_norm.weight") ||
            !name.ends_with(".weight") || kept.contains(name)) {
            type = ggml_type_of(DType::f32).value();
        } else if (is_ignored(name)) {
            type = ggml_type_of(target.dtype).value();
        } else if (target.shape.back() % facts_of(encoding).tile_columns != 0) {
            type = ggml_type_of(DType::f16).value();
            odd.push_back(target.name);
        } else {
            ++result.n_quantised;
        }
        if (target.volume() > 0) {
            make_blocks(target, type);
        }
    }
    if (!odd.empty()) {
        result.notes.push_back(counted(odd.size(), "weight") +
                               " is written as F16, because its rows fill no blocks of " +
                               std::to_string(facts_of(encoding).tile_columns) + ": " +
                               listed(odd));
    }
    return result;
}

}  // namespace shardweld::plan

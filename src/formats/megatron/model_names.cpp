#include "model_names.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/by_name.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/recognise.hpp"
#include "formats/shared/module_names.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::string_view kAdapter = ".adapter.";
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kDown = ".linear_in.weight";
constexpr std::string_view kUp = ".linear_out.weight";
constexpr std::string_view kBase = ".base_layer.";
constexpr std::string_view kOriginal = ".original_module.";
// PEFT's spelling of a factor, and Megatron-Bridge's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kFactors = {
    {{".lora_A.", ".adapter.linear_in."}, {".lora_B.", ".adapter.linear_out."}}};
// What else PEFT's modules hold of an adapter.
constexpr std::array<std::string_view, 2> kOthersOfPeft = {".lora_", ".modules_to_save."};
constexpr std::string_view kExperts = ".experts.";
constexpr const char* kMergeThere =
    "merge the adapter into the model with the framework that trained it and save that";

/// The rows at which pieces begin.
std::set<Index> row_begins(const Tensor& tensor) {
    return collect_set(tensor.pieces, [&](const Piece& piece) {
        return piece.patch.axes[tensor.shape.size() - 2].lo;
    });
}

/// ms-swift's B of [gate; up] is column-parallel as any other, so that rows of gate and up of a
/// rank lie together; Megatron-Bridge's is cut in as many halves. Says of how many ranks the rows
/// lie so. Experts' are not looked at: they have a tensor-parallel group of their own.
void note_row_order(Catalogue& out) {
    constexpr std::string_view kGated = ".linear_fc1.adapter.linear_out.weight";
    auto* const tp = find_value(out.facts, "tp");
    if (tp == nullptr || *tp < 2) {
        return;
    }
    for (const Tensor& tensor : out.tensors) {
        if (tensor.name.ends_with(kGated) && !has_part(tensor.name, kExperts) &&
            tensor.shape.size() >= 2 && static_cast<Index>(row_begins(tensor).size()) == *tp) {
            out.facts[kLoraRowsByRank] = *tp;
        }
    }
}

bool is_halved(std::string_view name) {
    return name.ends_with(kUp) && (has_part(name, ".linear_fc1.adapter.adapter_gate.") ||
                                   has_part(name, ".linear_fc1.adapter.adapter_up."));
}

/// Without the dot and the word between dots at `part`.
void remove_part(std::string& name, std::string_view part) {
    for (auto at = name.find(part); at != std::string::npos; at = name.find(part, at)) {
        name.erase(at, part.size() - 1);
    }
}

}  // namespace

std::string without_peft(std::string name) {
    remove_part(name, kBase);
    remove_part(name, kOriginal);
    for (const auto& [peft, bridge] : kFactors) {
        const auto at = name.find(peft);
        // "X.lora_A.default.weight"
        const auto end = at == std::string::npos ? at : name.find('.', at + peft.size());
        if (end != std::string::npos && name.compare(end, std::string::npos, ".weight") == 0) {
            return name.replace(at, end + 1 - at, bridge);
        }
    }
    for (const std::string_view part : kOthersOfPeft) {
        if (const auto at = name.find(part); at != std::string::npos) {
            return name.insert(at, kAdapter.substr(0, kAdapter.size() - 1));
        }
    }
    return name;
}

namespace {

/// The shapes of tensors or shards by their names, as far as they may be of bare adapters.
template <typename Item>
std::map<std::string, std::vector<Index>> shapes_of(const std::vector<Item>& items) {
    std::map<std::string, std::vector<Index>> shapes;
    for (const Item& item : items) {
        const std::string& name = item.name;
        if (name.ends_with(kWeight) && !is_of_adapter(name)) {
            shapes.emplace(name, item.shape);
        }
    }
    return shapes;
}

/// Megatron-Bridge's LinearAdapter is the layer itself, with its factors beside the weight:
/// "X.linear_in.weight" is "X.adapter.linear_in.weight" where "X.weight" has their product's shape,
/// or where all that is stored are factors.
template <typename Item>
void name_bare_factors(std::vector<Item>& items) {
    const auto shapes = shapes_of(items);
    std::map<std::string, std::string> names;
    std::map<std::string, std::string> without_weight;
    for (const auto& [name, down] : shapes) {
        if (!name.ends_with(kDown) || down.size() != 2) {
            continue;
        }
        const std::string stem = name.substr(0, name.size() - kDown.size());
        const auto up = shapes.find(stem + std::string(kUp));
        if (up == shapes.end() || up->second.size() != 2 || up->second[1] != down[0]) {
            continue;
        }
        auto* const weight = find_value(shapes, stem + std::string(kWeight));
        const bool is_product =
            weight != nullptr && *weight == std::vector<Index>{up->second[0], down[1]};
        if (is_product || weight == nullptr) {
            auto& into = is_product ? names : without_weight;
            into[name] = stem + ".adapter" + std::string(kDown);
            into[up->first] = stem + ".adapter" + std::string(kUp);
        }
    }
    const bool are_alone = std::ranges::all_of(items, [&](const Item& item) {
        return is_of_adapter(std::string_view(item.name)) || without_weight.contains(item.name);
    });
    if (are_alone) {
        names.merge(without_weight);
    }
    if (names.empty()) {
        return;
    }
    for (Item& item : items) {
        if (auto* const found = find_value(names, item.name)) {
            item.name = *found;
        }
    }
    std::ranges::stable_sort(items, {}, [](const Item& item) { return std::string(item.name); });
}

}  // namespace

bool is_of_adapter(std::string_view name) {
    return has_part(name, kAdapter) && !is_extra_state(name);
}

void note_adapter(Catalogue& out) {
    name_bare_factors(out.tensors);
    name_bare_factors(out.shards);
    std::set<Index> ranks;  // by B, whose columns nothing cuts
    bool is_there = false;
    bool is_only = true;
    const auto look = [&](const auto& item) {
        const std::string& name = item.name;
        const bool is_adapters = is_of_adapter(name);
        is_there = is_there || is_adapters;
        is_only = is_only && is_adapters;
        if (is_adapters && name.ends_with(kUp) && !item.shape.empty()) {
            ranks.insert(item.shape.back());
        }
    };
    std::ranges::for_each(out.tensors, look);
    std::ranges::for_each(out.shards, look);
    if (!is_there) {
        return;
    }
    out.facts[kLoraRank] = ranks.size() == 1 ? *ranks.begin() : 0;
    if (is_only) {
        out.facts[kLoraOnly] = 1;
    }
    note_row_order(out);
}

void undo_halves(Tensor& tensor) {
    if (!is_halved(tensor.name) || tensor.shape.size() < 2) {
        return;
    }
    const std::size_t rows = tensor.shape.size() - 2;
    const auto n_blocks = static_cast<Index>(row_begins(tensor).size());
    const Index block = n_blocks == 0 ? 0 : tensor.shape[rows] / n_blocks;
    const bool is_even = n_blocks % 2 == 0 && block * n_blocks == tensor.shape[rows] &&
                         std::ranges::all_of(tensor.pieces, [&](const Piece& piece) {
                             const layout::Axis& axis = piece.patch.axes[rows];
                             return axis.extent == block && axis.lo % block == 0;
                         });
    if (!is_even) {
        throw Error(ErrorCode::unsupported,
                    "the pieces of " + printable(tensor.name) +
                        " are not two equal halves for each rank: their order is not known",
                    kMergeThere);
    }
    const Index n_ranks = n_blocks / 2;
    for (Piece& piece : tensor.pieces) {
        layout::Axis& axis = piece.patch.axes[rows];
        const Index at = axis.lo / block;
        axis.lo = (at % n_ranks * 2 + at / n_ranks) * block;
    }
}

namespace {

constexpr std::string_view kWrapped = ".to_wrap.";

std::string_view without_wrappers_in_front(std::string_view key) {
    while (key.starts_with("model.") || key.starts_with("module.")) {
        key.remove_prefix(key.find('.') + 1);
    }
    return key;
}

/// "decoder.layers.3.mlp.linear_fc1" or "decoder.layers.mlp.linear_fc1": vision towers of other
/// frameworks have "blocks.3.mlp.linear_fc1".
bool holds_feed_forward(std::string_view text) {
    constexpr std::string_view kName = ".mlp.linear_fc";
    for (auto at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
        std::string_view before = text.substr(0, at);
        while (!before.empty() && (is_digit(before.back()) || before.back() == '.')) {
            before.remove_suffix(1);
        }
        if (before.ends_with("decoder.layers")) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::string model_name(std::string_view key) {
    std::string name = without_peft(std::string(without_wrappers_in_front(key)));
    remove_part(name, kWrapped);
    return name;
}

bool holds_megatron_name(std::string_view text) {
    constexpr std::array<std::string_view, 3> kNames = {
        "embedding.word_embeddings.", "self_attention.linear_", "decoder.final_layernorm."};
    return std::ranges::any_of(kNames,
                               [&](std::string_view name) { return has_part(text, name); }) ||
           holds_feed_forward(text);
}

void sort_tensors(std::vector<Tensor>& tensors) {
    if (const Tensor* const twice = sort_by_name(tensors)) {
        throw Error(ErrorCode::corrupt,
                    "two keys name tensor " + printable(twice->name) +
                        " when wrappers (model., module., to_wrap.) are removed");
    }
}

}  // namespace shardweld::formats::megatron

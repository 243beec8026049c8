#include "peft_names.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::adapters {

namespace {

using NameParts = std::vector<std::string_view>;

constexpr std::string_view kBaseLayer = "base_layer";

constexpr std::array<std::string_view, 5> kFactors{"lora_A", "lora_B", "lora_embedding_A",
                                                   "lora_embedding_B", "lora_magnitude_vector"};
/// Asked for every part of every tensor's name: only the last one that is not behind `part` can be
/// its beginning.
bool is_foreign(std::string_view part) {
    static const auto& beginnings = known_words("beginning of other methods of PEFT");
    const auto behind = std::ranges::upper_bound(beginnings, part);
    return behind != beginnings.begin() && part.starts_with(*std::prev(behind));
}

std::string join(const NameParts& parts, std::size_t begin, std::size_t end) {
    return joined(std::span(parts).subspan(begin, end - begin), ".");
}

/// The text without its parts [begin, end).
std::string without(const NameParts& parts, std::size_t begin, std::size_t end) {
    const std::string head = join(parts, 0, begin);
    const std::string tail = join(parts, end, parts.size());
    return head.empty() || tail.empty() ? head + tail : head + "." + tail;
}

/// "X.lora_A.NAME.weight", "X.lora_embedding_A.NAME", "X.lora_magnitude_vector.NAME[.weight]"; the
/// same without NAME is what a saved adapter holds.
PeftName factor_name(const NameParts& parts, std::size_t at, Index depth) {
    PeftName name;
    name.role = TensorRole::factor;
    name.module_name = join(parts, 0, at);
    std::size_t rest = at + 1;
    const bool is_named =
        rest < parts.size() &&
        !(rest + 1 == parts.size() && (parts[rest] == "weight" || parts[rest] == "bias"));
    if (is_named) {
        name.adapter_name = parts[rest++];
    }
    name.component = parts[at];
    const bool has_end = rest < parts.size() && parts[at] != "lora_magnitude_vector";
    const std::string end = has_end ? "." + join(parts, rest, parts.size()) : "";
    name.component += end == ".weight" ? "" : end;
    name.saved_name = kPrefix + name.module_name;
    for (Index i = 0; i < depth; ++i) {
        name.saved_name += "." + std::string(kBaseLayer);
    }
    name.saved_name += "." + std::string(parts[at]) + end;
    name.depth = depth;
    return name;
}

/// "X.lora_gate_and_up_A", "X.lora_down_B": of the parameters of X, which PEFT wraps one after the
/// other, down_proj outside.
std::optional<PeftName> grouped_name(const NameParts& parts, std::size_t at) {
    constexpr std::string_view kGateAndUp = "lora_gate_and_up_";
    const bool is_inside = parts[at].starts_with(kGateAndUp);
    const std::string_view stem = is_inside ? kGateAndUp : std::string_view("lora_down_");
    const std::string_view which =
        parts[at].starts_with(stem) ? parts[at].substr(stem.size()) : std::string_view();
    if (at + 1 != parts.size() || (which != "A" && which != "B")) {
        return std::nullopt;
    }
    PeftName name;
    name.role = TensorRole::factor;
    name.module_name = join(parts, 0, at);
    name.component = "lora_" + std::string(which);
    name.depth = is_inside ? 1 : 0;
    name.saved_name = kPrefix + name.module_name + (is_inside ? "." : "") +
                      std::string(is_inside ? kBaseLayer : "") + "." + name.component + ".weight";
    name.is_grouped = true;
    return name;
}

/// "X.modules_to_save.NAME.Y": the adapter's own copy of X.Y. PEFT saves it as "X.Y", and where it
/// saves embeddings for their new rows also as "X.modules_to_save.Y".
PeftName whole_name(const NameParts& parts, std::size_t at) {
    const bool is_named = at + 2 < parts.size();
    PeftName name;
    name.role = TensorRole::whole;
    name.whole_module = join(parts, 0, at);
    name.adapter_name = is_named ? parts[at + 1] : std::string_view();
    name.module_name = without(parts, at, at + (is_named ? 2 : 1));
    name.saved_name = kPrefix + name.module_name;
    return name;
}

/// "X.token_adapter.trainable_tokens_delta[.NAME]", and the rows as they were before.
PeftName rows_name(const NameParts& parts, std::size_t at) {
    PeftName name;
    name.role = parts[at + 1] == "trainable_tokens_delta"      ? TensorRole::rows
                : parts[at + 1] == "trainable_tokens_original" ? TensorRole::former
                                                               : TensorRole::foreign;
    name.module_name = join(parts, 0, at);
    name.adapter_name = at + 2 < parts.size() ? parts[at + 2] : std::string_view();
    name.component = parts[at + 1];
    name.saved_name = kPrefix + join(parts, 0, at + 2);
    return name;
}

/// The wrappers met in a name so far, from the outside in.
struct Wrappers {
    TensorRole role = TensorRole::base;  ///< that of all of them; `foreign` where they are mixed
    Index base_layers = 0;
    std::size_t last = 0;  ///< the part behind the last one

    void add(TensorRole wrapper, std::size_t at) {
        role = role == TensorRole::base || role == wrapper ? wrapper : TensorRole::foreign;
        base_layers += wrapper == TensorRole::wrapped ? 1 : 0;
        last = at;
    }

    /// Whether a factor at `at` is LoRA's as PEFT makes it: beside no base layer, or directly
    /// behind the last one.
    [[nodiscard]] bool fit_factor(std::size_t at) const {
        return role != TensorRole::original && (base_layers == 0 || last == at);
    }
};

/// The wrapper whose name the part is; none: `base`.
TensorRole wrapper_named(std::string_view part) {
    if (part == kBaseLayer) {
        return TensorRole::wrapped;
    }
    return part == "original_module" ? TensorRole::original : TensorRole::base;
}

}  // namespace

PeftName read_name(const std::string& stored) {
    const std::string_view prefix = kPrefix;
    const std::string bare = stored.starts_with(prefix) ? stored.substr(prefix.size()) : stored;
    NameParts parts = split(bare, '.');
    Wrappers wrappers;
    for (std::size_t i = 0; i < parts.size() && wrappers.role != TensorRole::foreign;) {
        const bool is_inner = i > 0 && i + 1 < parts.size();
        const TensorRole wrapper = is_inner ? wrapper_named(parts[i]) : TensorRole::base;
        if (is_inner && parts[i] == "token_adapter" && parts[i + 1] == kBaseLayer) {
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        } else if (is_inner && parts[i] == "token_adapter") {
            return rows_name(parts, i);
        } else if (is_foreign(parts[i])) {
            wrappers.role = TensorRole::foreign;
        } else if (auto grouped = grouped_name(parts, i)) {
            return *std::move(grouped);
        } else if (contains(kFactors, parts[i])) {
            PeftName name = factor_name(parts, i, wrappers.base_layers);
            name.role = wrappers.fit_factor(i) ? TensorRole::factor : TensorRole::foreign;
            return name;
        } else if (wrapper != TensorRole::base) {
            wrappers.add(wrapper, i);
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        } else if (is_inner && parts[i] == "modules_to_save") {
            return whole_name(parts, i);
        } else {
            ++i;
        }
    }
    PeftName name;
    name.role = wrappers.role;
    name.saved_name = kPrefix + bare;
    name.module_name = join(parts, 0, parts.size());
    return name;
}

namespace {

/// Tensors of one module by their component ("lora_A", "lora_B.bias").
using FactorsByComponent = std::map<std::string, std::size_t>;

/// A module, and which of the wrappers around it.
using Wrapped = std::pair<std::string, Index>;

std::map<Wrapped, FactorsByComponent> by_module(std::span<const SavedTensor> tensors) {
    std::map<Wrapped, FactorsByComponent> modules;
    for (const std::size_t i : indices(tensors)) {
        const PeftName name = read_name(tensors[i].name);
        if (name.role != TensorRole::factor) {
            continue;
        }
        modules[{name.module_name, name.depth}][name.component] = i;
    }
    return modules;
}

std::size_t require(const FactorsByComponent& factors, const std::string& component,
                    const std::string& path) {
    auto* const found = find_value(factors, component);
    if (found == nullptr) {
        throw Error(ErrorCode::mismatch, "the adapter of " + printable(path) + " has no " +
                                             component + ": the checkpoint is incomplete");
    }
    return *found;
}

[[noreturn]] void reject(const SavedTensor& tensor, const std::string& expected) {
    throw Error(ErrorCode::mismatch, printable(tensor.name) + " is " + shape_text(tensor.shape) +
                                         ", expected " + expected +
                                         " after the module's other factors");
}

void check_vector(std::span<const SavedTensor> tensors, std::optional<std::size_t> at,
                  const Module& module) {
    // DoRA keeps a convolution's magnitudes as [1, n, 1, 1].
    if (at && volume_of(tensors[*at].shape, tensors[*at].name) != module.n_out) {
        reject(tensors[*at], "[" + std::to_string(module.n_out) + "]");
    }
}

Module module_of(std::span<const SavedTensor> tensors, const Wrapped& wrapped,
                 const FactorsByComponent& factors) {
    Module module;
    module.path = wrapped.first;
    module.depth = wrapped.second;
    const std::string& path = module.path;
    module.is_embedding =
        factors.contains("lora_embedding_A") || factors.contains("lora_embedding_B");
    const std::string stem = module.is_embedding ? "lora_embedding_" : "lora_";
    module.a = require(factors, stem + "A", path);
    module.b = require(factors, stem + "B", path);
    const SavedTensor& a = tensors[module.a];
    const SavedTensor& b = tensors[module.b];
    if (a.shape.size() < 2 || b.shape.size() != a.shape.size()) {
        reject(a.shape.size() < 2 ? a : b, "as many dims as the other factor, at least two");
    }
    module.is_matrix = a.shape.size() == 2;
    module.rank = a.shape[0];
    module.n_in = a.shape[1];
    module.n_out = b.shape[0];
    if (b.shape[1] != module.rank) {
        reject(b, "[" + std::to_string(module.n_out) + ", " + std::to_string(module.rank) + "]");
    }
    module.magnitude = copy_of(find_value(factors, "lora_magnitude_vector"));
    module.bias = copy_of(find_value(factors, "lora_B.bias"));
    check_vector(tensors, module.magnitude, module);
    check_vector(tensors, module.bias, module);
    return module;
}

}  // namespace

std::vector<Module> modules_of(std::span<const SavedTensor> tensors) {
    std::vector<Module> modules;
    for (const auto& [wrapped, factors] : by_module(tensors)) {
        modules.push_back(module_of(tensors, wrapped, factors));
    }
    return modules;
}

}  // namespace shardweld::adapters

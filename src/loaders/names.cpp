#include "names.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/wrapper_names.hpp"

namespace shardweld::loaders {

namespace {

constexpr std::string_view kWeight = ".weight";

/// Whether all of it, whatever its encoding, lies below or beside the name.
bool has_parts_of(const ModelUnderCheck& model, const std::string& name) {
    const std::string stem =
        name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
    const auto module = model.modules.find(stem);
    if (module != model.modules.end() &&
        (module->second.packed != nullptr || !module->second.other.empty())) {
        return true;
    }
    const auto& tensors = model.weights.tensors;
    if (tensors.contains(name + "_blocks")) {
        return true;
    }
    if (model.scheme.method != Method::other) {
        return false;
    }
    const auto next = tensors.lower_bound(stem);
    return next != tensors.end() && next->first.starts_with(stem) &&
           (next->first[stem.size()] == '.' || next->first[stem.size()] == '_') &&
           is_part_of_codes(next->first);
}

/// Codes of 8 bits have the weight's own shape in these encodings only.
bool has_plain_shape(const ModelUnderCheck& model, DType dtype) {
    return !is_codes(dtype) || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 ||
           (dtype == DType::i8 && model.scheme.method == Method::compressed_tensors);
}

std::string_view first_part(std::string_view name) {
    return name.substr(0, name.find('.') + 1);
}

/// "model." of the names of most families' layers, or of their embedding.
std::string base_of(const std::map<std::string, ExpectedTensor>& expected) {
    constexpr std::array<std::string_view, 5> kNoBases = {"layers.", "h.", "encoder.",
                                                          "language_model.", "thinker."};
    std::string base;
    for (const auto& [name, tensor] : expected) {
        if (!tensor.logical.starts_with("layer.") && tensor.logical != "embed") {
            continue;
        }
        std::vector<std::string> names = tensor.spellings;
        names.push_back(name);
        for (const std::string& one : names) {
            std::string part(first_part(one));
            if (part == "model.") {
                return part;
            }
            if (base.empty() && std::ranges::find(kNoBases, part) == kNoBases.end()) {
                base = part;
            }
        }
    }
    return base;
}

/// The name in the tree of modules: of the spellings the last one, if the base is in front of it.
std::string_view name_in_tree(std::string_view base, const std::string& name,
                              const ExpectedTensor& tensor) {
    const auto& spellings = tensor.spellings;
    const auto in_tree =
        std::find_if(spellings.rbegin(), spellings.rend(),
                     [&](const std::string& one) { return one.starts_with(base); });
    if (in_tree != spellings.rend()) {
        return *in_tree;
    }
    return name.starts_with(base) || spellings.empty() ? name : spellings.back();
}

/// Whether the tree has something more behind the base than names on the Hub have
/// ("model.language_model.layers." of "model.layers.").
bool has_more_behind(std::string_view base, const std::map<std::string, ExpectedTensor>& expected) {
    return std::ranges::any_of(expected, [&](const auto& entry) {
        const std::string_view tree = name_in_tree(base, entry.first, entry.second);
        return entry.first.starts_with(base) && tree.size() > entry.first.size() &&
               tree.ends_with(entry.first.substr(base.size()));
    });
}

/// How many characters of whole components both end in.
std::size_t common_end(std::string_view a, std::string_view b) {
    std::size_t length = 0;
    std::size_t whole = 0;
    while (length < a.size() && length < b.size() &&
           a[a.size() - 1 - length] == b[b.size() - 1 - length]) {
        ++length;
        const bool ends_a = length == a.size() || a[a.size() - 1 - length] == '.';
        const bool ends_b = length == b.size() || b[b.size() - 1 - length] == '.';
        whole = ends_a && ends_b ? length : whole;
    }
    return whole;
}

}  // namespace

Places::Places(const ModelUnderCheck& model)
    : model_(model),
      base_(base_of(model.directory.expected)),
      takes_base_(!base_.empty() &&
                  (model.is_for(Loader::transformers) || !is_language_model(model.architecture()))),
      has_more_(has_more_behind(base_, model.directory.expected)) {
    for (const auto& [name, tensor] : model.directory.expected) {
        const auto names = names_of(name, tensor);
        known_.insert(names.begin(), names.end());
    }
    for (const auto& [logical, parts] : model.directory.whole) {
        for (const auto& names : parts) {
            known_.insert(names.begin(), names.end());
        }
    }
}

std::vector<std::string> Places::names_of(const std::string& name,
                                          const ExpectedTensor& tensor) const {
    std::vector<std::string> names = {name};
    names.insert(names.end(), tensor.spellings.begin(), tensor.spellings.end());
    if (!takes_base_) {
        return names;
    }
    const std::string tree(name_in_tree(base_, name, tensor));
    if (tree.starts_with(base_)) {
        names.push_back(tree.substr(base_.size()));
    }
    // Rules for what lies behind the base rename these otherwise, or not at all.
    if (name.starts_with(base_) && !has_more_) {
        names.push_back(name.substr(base_.size()));
    }
    if (tree.starts_with(base_) || !has_more_) {
        names.push_back(base_ + tree);
    }
    // A head's other name is renamed only where nothing is in front of it.
    if (name.starts_with(base_) || tensor.logical != "head") {
        names.push_back(base_ + name);
    }
    return names;
}

Place Places::at(const std::string& name) const {
    const auto plain = model_.weights.tensors.find(name);
    if (plain != model_.weights.tensors.end()) {
        const bool is_plain = has_plain_shape(model_, plain->second.dtype);
        return {name, is_plain ? std::optional(plain->second.shape) : std::nullopt, false};
    }
    return has_parts_of(model_, name) ? Place{name, std::nullopt, false} : Place();
}

Place Places::of(const std::string& name, const ExpectedTensor& tensor) const {
    const auto names = names_of(name, tensor);
    for (const std::string& one : names) {
        Place place = at(one);
        if (place.is_there()) {
            place.is_other = one != name && !model_.is_for(Loader::transformers);
            return place;
        }
    }
    return whole_of(tensor);
}

/// A tensor whose parts transformers keeps as one.
Place Places::whole_of(const ExpectedTensor& tensor) const {
    const auto whole = model_.directory.whole.find(tensor.logical);
    if (whole == model_.directory.whole.end()) {
        return {};
    }
    const bool is_there = std::ranges::all_of(whole->second, [&](const auto& names) {
        return std::ranges::any_of(names,
                                   [&](const std::string& name) { return at(name).is_there(); });
    });
    return is_there ? Place{whole->second.front().front(), std::nullopt,
                            !model_.is_for(Loader::transformers)}
                    : Place();
}

std::string prefix_before(const ModelUnderCheck& model, const std::string& name) {
    for (const auto& [stored, tensor] : model.weights.tensors) {
        if (stored.size() > name.size() + 1 && stored.ends_with("." + name)) {
            return stored.substr(0, stored.size() - name.size());
        }
    }
    return "";
}

std::string nearest_to(const ModelUnderCheck& model, const std::string& name) {
    std::string nearest;
    std::size_t longest = 0;
    const std::size_t last = name.size() - (name.rfind('.') + 1);
    for (const auto& [stored, tensor] : model.weights.tensors) {
        const std::size_t length = common_end(stored, name);
        if (length > std::max(longest, last)) {
            longest = length;
            nearest = stored;
        }
    }
    return nearest;
}

bool is_computed(std::string_view name) {
    constexpr std::array<std::string_view, 6> kEndings = {"rotary_emb.inv_freq", ".attn.bias",
                                                          ".masked_bias",        "position_ids",
                                                          "num_batches_tracked", ".attention.bias"};
    return std::ranges::any_of(kEndings,
                               [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_of_adapter(std::string_view name) {
    constexpr std::array<std::string_view, 6> kParts = {
        ".lora_A.",     ".lora_B.",         ".lora_embedding_", ".lora_magnitude_vector",
        ".base_layer.", ".modules_to_save."};
    return name.starts_with("base_model.model.") ||
           std::ranges::any_of(kParts, [&](std::string_view part) {
               return name.find(part) != std::string_view::npos;
           });
}

std::string wrapper_in(const ModelUnderCheck& model) {
    // What the parts of a trainer are called; with a family more is seen (prefix_before).
    constexpr std::array<std::string_view, 5> kRoles = {"actor", "policy", "critic", "student",
                                                        "network"};
    const auto& tensors = model.weights.tensors;
    const auto is_in = [](const std::string& name, const std::string& part) {
        return name.starts_with(part) || name.find("." + part) != std::string::npos;
    };
    for (const std::string_view word : kWrappers) {
        std::string part = std::string(word) + ".";
        if (std::ranges::any_of(tensors, [&](const auto& one) { return is_in(one.first, part); })) {
            return part;
        }
    }
    const auto leads = [&](const std::string_view word) {
        return !tensors.empty() && std::ranges::all_of(tensors, [&](const auto& one) {
            return one.first.starts_with(std::string(word) + ".");
        });
    };
    for (const std::span<const std::string_view> words :
         {std::span<const std::string_view>(kLeadingWrappers),
          std::span<const std::string_view>(kRoles)}) {
        if (const auto at = std::ranges::find_if(words, leads); at != words.end()) {
            return std::string(*at) + ".";
        }
    }
    return "";
}

}  // namespace shardweld::loaders

#include "model_selection.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/by_name.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::dcp {

namespace {

std::string_view first_part(std::string_view text, char separator) {
    return text.substr(0, text.find(separator));
}

// The path of the dictionary, "" at the top.
std::string_view parent_of(std::string_view path) {
    const auto at = path.rfind(kKeySeparator);
    return at == std::string_view::npos ? std::string_view() : path.substr(0, at);
}

std::string_view key_of(std::string_view path) {
    return path.substr(path.rfind(kKeySeparator) + 1);
}

/// The keys of tensors, without wrappers' names.
std::set<std::string> bare_names(const Catalogue& catalogue,
                                 const std::function<bool(const Tensor&)>& is_meant) {
    return collect_set(
        catalogue.tensors,
        [](const Tensor& tensor) { return without_wrappers(key_of(tensor.name)); }, is_meant);
}

// "layers.0.weight": a key that names a parameter of nested modules.
bool is_tree_name(std::string_view key) {
    return has_part(key, '.');
}

// Inside the dictionary or one of its own dictionaries.
bool is_below(std::string_view path, std::string_view parent) {
    return parent.empty() || (path.size() > parent.size() && path.starts_with(parent) &&
                              path[parent.size()] == kKeySeparator);
}

// Asks dictionaries only: a module may be called as some are.
bool in_training_dictionary(std::string_view path) {
    const std::string_view parent = parent_of(path);
    return !parent.empty() && std::ranges::any_of(split(parent, kKeySeparator), is_training_key);
}

using Counts = std::map<std::string, Index>;

std::string list_of(const Counts& counts) {
    std::vector<std::string> texts;
    for (const auto& [path, count] : counts) {
        texts.push_back((path.empty() ? "(top level)" : dotted(path)) + " (" +
                        std::to_string(count) + " tensors)");
    }
    return texts.empty() ? "nothing" : name_list(texts);
}

// The longest path of dictionaries that all tensors below the first one share.
std::string common_parent(const Catalogue& catalogue, std::string_view below) {
    std::optional<std::string> common;
    for (const Tensor& tensor : catalogue.tensors) {
        if (!is_below(tensor.name, below)) {
            continue;
        }
        const std::string_view parent = parent_of(tensor.name);
        if (!common) {
            common = parent;
        }
        while (parent != *common && !is_below(parent, *common)) {
            common = std::string(parent_of(*common));
        }
    }
    return common.value_or("");
}

// The dictionaries that look like a module's state dict.
Counts models_in(const Catalogue& catalogue) {
    Counts models;
    for (const Tensor& tensor : catalogue.tensors) {
        if (is_tree_name(key_of(tensor.name)) && !in_training_dictionary(tensor.name)) {
            ++models[std::string(parent_of(tensor.name))];
        }
    }
    if (!models.empty()) {
        return models;
    }
    // Dictionaries nested as the modules are, or modules without submodules.
    Counts top;
    for (const Tensor& tensor : catalogue.tensors) {
        if (in_training_dictionary(tensor.name)) {
            continue;
        }
        const bool is_plain = parent_of(tensor.name).empty();
        ++top[is_plain ? "" : std::string(first_part(tensor.name, kKeySeparator))];
    }
    for (const auto& [key, count] : top) {
        models[key.empty() ? "" : common_parent(catalogue, key)] = count;
    }
    return models;
}

// Dictionaries without a common name are parts of one model.
void require_copies(const Catalogue& catalogue, const Counts& models) {
    const auto largest =
        std::ranges::max_element(models, {}, [](const auto& model) { return model.second; });
    const auto names = bare_names(
        catalogue, [&](const Tensor& tensor) { return parent_of(tensor.name) == largest->first; });
    std::map<std::string, std::string> first;  // of each other dictionary, a tensor
    std::set<std::string> copies;
    for (const Tensor& tensor : catalogue.tensors) {
        const std::string parent(parent_of(tensor.name));
        if (parent == largest->first || !models.contains(parent)) {
            continue;
        }
        first.emplace(parent, dotted(tensor.name));
        if (names.contains(without_wrappers(key_of(tensor.name)))) {
            copies.insert(parent);
        }
    }
    for (const auto& [parent, name] : first) {
        if (!copies.contains(parent)) {
            refuse_part(name,
                        "save it in the model's dictionary, or leave it aside with --prefix " +
                            printable(dotted(largest->first)));
        }
    }
}

std::string choose_model(const Catalogue& catalogue) {
    const Counts models = models_in(catalogue);
    if (models.empty()) {
        refuse_only_state("the checkpoint", catalogue);
    }
    if (models.size() > 1) {
        require_copies(catalogue, models);
        throw Error(ErrorCode::usage,
                    "the checkpoint holds several state dicts: " + list_of(models),
                    "choose one with --prefix");
    }
    return models.begin()->first;
}

// Leaves those tensors for which `name_of` has a name; the others.
template <typename NameOf>
std::vector<Tensor> keep(const NameOf& name_of, Catalogue& catalogue) {
    IgnoredRows ignored;
    ignored.add(catalogue.ignored);
    std::vector<Tensor> kept;
    std::vector<Tensor> outside;
    for (Tensor& tensor : catalogue.tensors) {
        const auto name = name_of(tensor);
        if (name && name->ends_with("_extra_state")) {
            ignored.add({"*_extra_state", "Transformer Engine state"}, 1,
                        catalogue::stored_bytes(tensor));
        } else if (name) {
            tensor.name = *name;
            kept.push_back(std::move(tensor));
        } else {
            const std::string top(first_part(first_part(tensor.name, kKeySeparator), '.'));
            ignored.add({printable(top) + "*", "outside the chosen state dict"}, 1,
                        catalogue::stored_bytes(tensor));
            outside.push_back(std::move(tensor));
        }
    }
    catalogue.tensors = std::move(kept);
    catalogue.ignored = ignored.rows();
    return outside;
}

// What lies beside the model and has a name that the model has not.
void require_no_part(const std::vector<Tensor>& outside, const Catalogue& catalogue,
                     const std::string& model) {
    const auto is_models = [&](std::string_view name) {
        return std::ranges::binary_search(
            catalogue.tensors, name, {},
            [](const Tensor& tensor) -> std::string_view { return tensor.name; });
    };
    for (const Tensor& tensor : outside) {
        if (may_be_part(dotted(tensor.name), tensor.dtype, tensor.shape, is_models)) {
            refuse_part(dotted(tensor.name),
                        model.empty() ? "save it in the model's dictionary"
                                      : "save it in the model's dictionary, or leave it aside with "
                                        "--prefix " +
                                            printable(dotted(model)));
        }
    }
}

}  // namespace

std::string path_name(const std::vector<std::string>& components) {
    std::string path;
    for (const std::string& component : components) {
        path.append(path.empty() ? "" : std::string(1, kKeySeparator)).append(component);
    }
    return path;
}

namespace {

// "optimizer.proj.weight": by its name of a module; states have longer ones, and names of weights
// in them.
bool is_plain_weight(std::string_view path) {
    constexpr std::ptrdiff_t kMostDots = 3;
    return parent_of(path).empty() && is_called_as_weight(path) &&
           std::ranges::count(path, '.') <= kMostDots;
}

}  // namespace

std::optional<RowName> training_state(std::string_view path) {
    // Only dictionaries' keys, and the first component of a plain name: parameters may be called
    // anything.
    const std::string_view parent = parent_of(path);
    const std::string_view first = first_part(path, '.');
    if (parent.empty() && !is_training_only(first) && is_called_as_weight(path)) {
        return std::nullopt;
    }
    std::string pattern;
    for (const std::string_view key : split(parent.empty() ? first : parent, kKeySeparator)) {
        pattern.append(pattern.empty() ? "" : ".").append(key);
        if (is_training_key(key)) {
            return RowName(printable(pattern) + "*", kTrainingState);
        }
    }
    return std::nullopt;
}

std::optional<RowName> training_state(std::string_view path, const DcpTensor& tensor) {
    const std::string_view parent = parent_of(path);
    const auto keys = split(parent.empty() ? first_part(path, '.') : parent, kKeySeparator);
    const bool is_certain = std::ranges::any_of(keys, is_training_only) && !is_plain_weight(path);
    const bool is_large = volume_of(tensor.shape, "a tensor's shape") > 1;
    const auto row =
        is_certain || !is_float(tensor.dtype) || !is_large ? training_state(path) : std::nullopt;
    const bool is_number =
        !is_large && !is_tree_name(key_of(path)) && is_training_number(key_of(path));
    return !row && is_number ? RowName(printable(dotted(path)), kTrainingState) : row;
}

void WeightHolders::add(std::string_view path) {
    const std::string_view key = key_of(path);
    names_.emplace(key);
    if (is_tree_name(key)) {
        trees_.emplace(parent_of(path));
    } else if (is_called_as_weight(key)) {
        modules_.emplace(parent_of(path));
    }
}

std::optional<std::string> WeightHolders::name_of(std::string_view path) const {
    const std::string_view key = key_of(path);
    if (is_tree_name(key) || trees_.contains(parent_of(path))) {
        return std::string(key);
    }
    return modules_.contains(parent_of(path)) ? std::optional(dotted(path)) : std::nullopt;
}

void select_model(Catalogue& catalogue) {
    const std::string model = choose_model(catalogue);
    const auto names = bare_names(catalogue, [](const Tensor& tensor) {
        return !is_training_only(first_part(tensor.name, '.'));
    });
    // Where a name begins as training state does, the rest tells whose it is.
    const auto is_state = [&](const Tensor& tensor) {
        return is_training_only(first_part(tensor.name, '.')) &&
               !may_be_part(tensor.name, tensor.dtype, tensor.shape, [&](std::string_view name) {
                   return names.contains(std::string(name));
               });
    };
    const auto name_of = [&](const Tensor& tensor) -> std::optional<std::string> {
        const std::string_view path = tensor.name;
        if (model.empty() && parent_of(path).empty() && is_state(tensor)) {
            return std::nullopt;
        }
        // At the top level, dictionaries are something else than the model.
        const bool is_model = model.empty() ? parent_of(path).empty() : is_below(path, model);
        return is_model ? std::optional(dotted(path.substr(model.empty() ? 0 : model.size() + 1)))
                        : std::nullopt;
    };
    const std::vector<Tensor> outside = keep(name_of, catalogue);
    if (!model.empty()) {
        catalogue.notes.push_back("using what lies below " + printable(dotted(model)));
    }
    if (const Tensor* const twice = sort_by_name(catalogue.tensors)) {
        throw Error(ErrorCode::mismatch, "keys " + printable(twice->stored_as) + " and " +
                                             printable((twice + 1)->stored_as) +
                                             " both name tensor " + printable(twice->name));
    }
    remove_wrappers(catalogue);
    require_no_part(outside, catalogue, model);
}

void note_trainer(Catalogue& out) {
    for (const NameRule& rule : name_rules().dialects) {
        const bool is_it = std::ranges::any_of(out.tensors, [&](const Tensor& tensor) {
            return matches_any(rule.patterns, tensor.name);
        });
        if (is_it) {
            out.dialect = rule.what;
            out.notes.push_back("its names are " + std::string(rule.more));
            return;
        }
    }
}

}  // namespace shardweld::formats::dcp

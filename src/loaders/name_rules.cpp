// The stored tensors against those that the model's family makes of config.json.
#include <algorithm>
#include <array>

#include "shardweld/core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

constexpr std::string_view kWeight = ".weight";

/// What quantised weights have beside or in place of their name.
constexpr std::array<std::string_view, 9> kPartEndings = {
    "_scale_inv", "_scale",  "_packed",     "_shape",     "_global_scale",
    "_blocks",    "_scales", "_zero_point", "input_scale"};

/// The shape of a weight as it is meant, whatever is stored of it; nullopt: nothing is. Empty: it
/// is stored in a form whose shape is checked elsewhere.
std::optional<std::vector<Index>> stored_shape(const Case& model, const std::string& name) {
    const auto& tensors = model.directory.tensors;
    if (const auto plain = tensors.find(name); plain != tensors.end()) {
        return plain->second.shape;
    }
    const auto module = name.ends_with(kWeight)
                            ? model.modules.find(name.substr(0, name.size() - kWeight.size()))
                            : model.modules.end();
    if (module != model.modules.end() && module->second.packed != nullptr) {
        return std::vector<Index>{};
    }
    return tensors.contains(name + "_blocks") ? std::optional(std::vector<Index>{}) : std::nullopt;
}

/// Rules of their own look at both ends of the model; value models have other heads.
bool is_end_of_model(const std::string& name) {
    return name.ends_with("lm_head.weight") || name.ends_with("embed_tokens.weight") ||
           name.starts_with("score.");
}

bool is_part(const std::string& name) {
    return std::ranges::any_of(kPartEndings,
                               [&](std::string_view part) { return name.ends_with(part); });
}

std::vector<std::string> unexpected(const Directory& directory) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : directory.tensors) {
        const bool is_known =
            directory.expected.contains(name) || is_part(name) || is_end_of_model(name) ||
            std::ranges::any_of(directory.passes,
                                [&](const auto& glob) { return glob_matches(glob, name); });
        if (!is_known) {
            names.push_back(name);
        }
    }
    return names;
}

void look_at_names(const Case& model, Findings& findings) {
    if (model.directory.expected.empty()) {
        return;
    }
    std::vector<std::string> missing;
    std::vector<std::string> other_shapes;
    std::size_t n_found = 0;
    for (const auto& [name, expected] : model.directory.expected) {
        const auto shape = stored_shape(model, name);
        n_found += shape ? 1U : 0U;
        if (is_end_of_model(name)) {
            continue;
        }
        if (!shape && !expected.is_optional) {
            missing.push_back(name);
        } else if (shape && !shape->empty() && *shape != expected.shape) {
            other_shapes.push_back(name + " " + shape_text(*shape) + ", not " +
                                   shape_text(expected.shape));
        }
    }
    const std::string family = printable(model.directory.family);
    if (n_found * 2 < model.directory.expected.size()) {
        findings.doubtful("tensors are not named as those of the family " + family + ": " +
                              first_of(missing) + " are missing",
                          "loaders know some other names, too: try it with the loader itself");
        return;
    }
    const auto more = unexpected(model.directory);
    if (!missing.empty()) {
        findings.fatal("tensors of the family " + family + " are missing: " + first_of(missing),
                       "they would be random: merge again, or copy all files");
    }
    if (!other_shapes.empty()) {
        findings.fatal("shapes are not those of config.json: " + first_of(other_shapes),
                       "correct config.json, or merge again with the model's own");
    }
    if (!more.empty()) {
        findings.doubtful("the family " + family + " has no such tensors: " + first_of(more),
                          "loaders leave them out, or refuse them");
    }
}

}  // namespace

const std::vector<Rule>& name_rules() {
    static const std::vector<Rule> rules = {
        {"names", kHub, look_at_names,
         "names and shapes are those that the recipe of the family makes of config.json",
         "transformers 5.23, run: a missing tensor is random, another shape a RuntimeError"},
    };
    return rules;
}

}  // namespace shardweld::loaders

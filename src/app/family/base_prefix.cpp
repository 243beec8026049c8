#include "base_prefix.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kEmbedding = "embed";  // logical names
constexpr std::string_view kHeadModule = "head";
// transformers' GenericForQuestionAnswering keeps the base under this name in most families.
constexpr std::string_view kOfQuestions = "transformer.";
// What the bare model of a class is called in the model with a head.
constexpr std::string_view kOfBase = "model.";
// Composite models keep the language model under this one, whatever the hub's names say.
constexpr std::string_view kOfComposites = "language_model.";

std::set<std::string> stored_names(const catalogue::Catalogue& catalogue,
                                   const models::Recipe& recipe) {
    std::set<std::string> names;
    const auto add = [&](const std::string& name) {
        const models::RenameRule* const rule = models::longest_match(recipe.renames, name);
        names.insert(rule == nullptr ? name : rule->to + name.substr(rule->from.size()));
    };
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        add(tensor.name);
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        add(shard.name);
    }
    return names;
}

const models::Line* line_of(const models::Recipe& recipe, std::string_view logical) {
    const auto at = std::ranges::find(recipe.hub, logical, &models::Line::logical);
    return at == recipe.hub.end() ? nullptr : &*at;
}

bool holds_composite(const std::set<std::string>& names) {
    const auto first = names.lower_bound(std::string(kOfComposites));
    return first != names.end() && first->starts_with(kOfComposites);
}

/// "a.b.c.weight" as "a.b." and "c.weight".
std::pair<std::string, std::string> split_name(const std::string& name) {
    std::size_t dot = name.rfind('.');
    dot = dot == std::string::npos || dot == 0 ? dot : name.rfind('.', dot - 1);
    return dot == std::string::npos ? std::pair(std::string(), name)
                                    : std::pair(name.substr(0, dot + 1), name.substr(dot + 1));
}

/// Without what both end in: "model.language_model." and "language_model." differ in "model.".
BasePrefix shortened(std::string of_recipe, std::string stored) {
    const auto last_part = [](const std::string& prefix) {
        const std::size_t dot =
            prefix.size() < 2 ? std::string::npos : prefix.rfind('.', prefix.size() - 2);
        return dot == std::string::npos ? prefix : prefix.substr(dot + 1);
    };
    while (!stored.empty() && !of_recipe.empty() && last_part(of_recipe) == last_part(stored)) {
        const std::size_t length = last_part(stored).size();
        of_recipe.erase(of_recipe.size() - length);
        stored.erase(stored.size() - length);
    }
    return {std::move(of_recipe), std::move(stored)};
}

bool is_known(const BasePrefix& prefix) {
    return !prefix.of_recipe.empty() &&
           (prefix.stored.empty() || prefix.stored == kOfQuestions ||
            prefix.stored == kOfComposites ||
            std::ranges::count(prefix.stored, '.') < std::ranges::count(prefix.of_recipe, '.'));
}

void replace_prefix(std::string& text, const BasePrefix& prefix) {
    if (text.starts_with(prefix.of_recipe)) {
        text.replace(0, prefix.of_recipe.size(), prefix.stored);
    }
}

/// Rules say where names of the whole model stand. One for the whole base says nothing of names
/// that have lost its beginning, nor one for a language model whose names stay as they are stored.
void replace_prefix(std::vector<models::RenameRule>& rules, const BasePrefix& prefix) {
    const BasePrefix others{prefix.of_recipe, prefix.stored == kOfComposites ? "" : prefix.stored};
    std::erase_if(rules, [&](models::RenameRule& rule) {
        const bool is_of_base = rule.from == prefix.of_recipe;
        replace_prefix(rule.from, others);
        replace_prefix(rule.to, others);
        return is_of_base || rule.from == prefix.stored;
    });
}

}  // namespace

std::optional<BasePrefix> find_base_prefix(const catalogue::Catalogue& catalogue,
                                           const models::Recipe& recipe) {
    const models::Line* const embedding = line_of(recipe, kEmbedding);
    const std::set<std::string> names = stored_names(catalogue, recipe);
    if (embedding == nullptr || names.contains(embedding->name.text)) {
        return std::nullopt;
    }
    // The names of a bare composite model are those of the whole one without its beginning.
    const BasePrefix bare{std::string(kOfBase), ""};
    const models::Recipe stripped = with_base_prefix(recipe, bare);
    const std::string& wanted = line_of(stripped, kEmbedding)->name.text;
    const bool is_inner = wanted == embedding->name.text;
    const bool may_rename = is_inner || !holds_composite(names);
    if (stored_names(catalogue, may_rename ? stripped : models::Recipe()).contains(wanted)) {
        return bare;
    }
    const auto [of_recipe, rest] = split_name(embedding->name.text);
    for (const std::string& name : names) {
        if (name == rest || name.ends_with("." + rest)) {
            const BasePrefix prefix =
                shortened(of_recipe, name.substr(0, name.size() - rest.size()));
            return is_known(prefix) ? std::optional(prefix) : std::nullopt;
        }
    }
    return std::nullopt;
}

bool has_language_head(const catalogue::Catalogue& catalogue, const models::Recipe& recipe) {
    const models::Line* const head = line_of(recipe, kHeadModule);
    return head != nullptr && stored_names(catalogue, recipe).contains(head->name.text);
}

models::Recipe with_base_prefix(models::Recipe recipe, const BasePrefix& prefix) {
    for (auto* lines : {&recipe.hub, &recipe.module}) {
        for (models::Line& line : *lines) {
            std::string text = line.name.text;
            replace_prefix(text, prefix);
            line.name = models::Pattern::parse(text);
        }
    }
    for (std::string& glob : recipe.passes) {
        replace_prefix(glob, prefix);
    }
    replace_prefix(recipe.renames, prefix);
    for (models::RenameRule& rule : recipe.eithers) {
        replace_prefix(rule.from, prefix);
        replace_prefix(rule.to, prefix);
    }
    for (models::IgnoreRule& rule : recipe.ignore) {
        for (std::string& glob : rule.globs) {
            replace_prefix(glob, prefix);
        }
    }
    return recipe;
}

models::Recipe without_language_head(models::Recipe recipe) {
    for (auto* lines : {&recipe.hub, &recipe.module}) {
        std::erase_if(*lines, [](const models::Line& line) { return line.logical == kHeadModule; });
    }
    return recipe;
}

}  // namespace shardweld::app

#include "stored_evidence.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "models/name_changes.hpp"
#include "shardweld/error.hpp"

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
    return collect_set(catalogue::distinct_names(catalogue), [&](const std::string* name) {
        return models::renamed_by(recipe.renames, *name);
    });
}

const models::Line* line_of(const models::Recipe& recipe, std::string_view logical) {
    return find_item(recipe.hub, logical, &models::Line::logical);
}

bool holds_composite(const std::set<std::string>& names) {
    const auto first = names.lower_bound(std::string(kOfComposites));
    return first != names.end() && first->starts_with(kOfComposites);
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

constexpr const char* kOwnName = "score.weight";
constexpr const char* kLanguageHead = "lm_head.weight";
constexpr const char* kLogical = "score";  // what dialects and recipes call it

ScoreHead in_module_tree(const catalogue::Catalogue& catalogue) {
    ScoreHead head;
    bool has_other = false;
    int n_parts = 0;
    catalogue::each_item(catalogue, [&](const auto& item) {
        const std::string& name = item.name;
        has_other = has_other || name.ends_with(kLanguageHead);
        if (name == kOwnName) {
            ++n_parts;
            head.rows = item.shape.empty() ? std::nullopt : std::optional(item.shape[0]);
        }
    });
    if (n_parts > 1) {
        head.rows.reset();  // cut into plain shards
    }
    if (n_parts > 0 && !has_other) {
        head.evidence = "the checkpoint holds score.weight and no language-model head";
    }
    return head;
}

ScoreHead in_framework(const catalogue::Catalogue& catalogue, const models::Dialect& dialect) {
    ScoreHead head;
    catalogue::each_item(catalogue, [&](const auto& item) {
        const std::string& name = item.name;
        const auto is_head = [&](const models::Line& line) {
            return line.logical == kLogical && line.name.match(name).has_value();
        };
        if (!item.shape.empty() && item.shape[0] == 1 &&
            std::ranges::any_of(dialect.store, is_head)) {
            head.evidence = "the checkpoint's " + name + " has one row";
        }
    });
    return head;
}

using catalogue::Tensor;

/// Its pieces in the order of their rows, without replicas.
std::vector<const catalogue::Piece*> parts_of(const Tensor& tensor) {
    std::vector<const catalogue::Piece*> parts = collect_list(
        tensor.pieces, [](const catalogue::Piece& piece) { return &piece; },
        [&](const catalogue::Piece& piece) {
            return piece.replica == 0 && !piece.patch.axes.empty();
        });
    std::ranges::sort(parts, {},
                      [](const catalogue::Piece* piece) { return piece->patch.axes[0].lo; });
    return parts;
}

bool has_rows_of_vocabulary(const Tensor& tensor, const models::Config& config) {
    constexpr std::array<std::string_view, 4> kTables = {"embed", "lm_head", "wte", "output"};
    return tensor.shape.front() == config.integer("vocab_size").value_or(0) &&
           std::ranges::any_of(kTables,
                               [&](std::string_view word) { return has_part(tensor.name, word); });
}

/// Rows are cut into parts of equal size, the last one is what is left (torch.chunk).
bool proves(const Tensor& tensor, const models::Config& config, Index n_ranks) {
    const std::vector<const catalogue::Piece*> parts = parts_of(tensor);
    if (n_ranks < 1 || parts.size() != as_size(n_ranks) || tensor.shape.empty()) {
        return false;
    }
    const Index n_rows = tensor.shape.front();
    const Index part = parts.front()->patch.axes[0].extent;
    const Index last = parts.back()->patch.axes[0].extent;
    const bool is_cut_in_rows = n_ranks == 1 || parts[1]->patch.axes[0].lo == part;
    const bool could_be_more = (n_rows + n_ranks) / (n_ranks + 1) == part;
    return is_cut_in_rows && !could_be_more &&
           (last < part || has_rows_of_vocabulary(tensor, config));
}

}  // namespace

std::pair<std::string, std::string> split_name(const std::string& name) {
    std::size_t dot = name.rfind('.');
    dot = dot == std::string::npos || dot == 0 ? dot : name.rfind('.', dot - 1);
    return dot == std::string::npos ? std::pair(std::string(), name)
                                    : std::pair(name.substr(0, dot + 1), name.substr(dot + 1));
}

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

ScoreHead find_score_head(const catalogue::Catalogue& catalogue, const models::Dialect& dialect) {
    return dialect.has_own_names ? in_module_tree(catalogue) : in_framework(catalogue, dialect);
}

void require_all_ranks(const models::Config& config, const catalogue::Catalogue& catalogue) {
    const auto ranks = catalogue.facts.find(formats::kShardRanks);
    const auto is_proof = [&](const Tensor& tensor) {
        return proves(tensor, config, ranks->second);
    };
    if (ranks == catalogue.facts.end() || catalogue.tensors.empty() ||
        std::ranges::any_of(catalogue.tensors, is_proof)) {
        return;
    }
    const auto widest = std::ranges::max_element(catalogue.tensors, {}, [](const Tensor& tensor) {
        return std::pair(tensor.pieces.size(), tensor.shape.size());
    });
    const std::string file =
        widest->pieces.empty() ? "" : catalogue.files.at(widest->pieces.back().file).path;
    throw Error(
        ErrorCode::unsupported,
        "tensor " + printable(widest->name) + " reaches up to " + shape_text(widest->shape) +
            " (file " + printable(file) +
            "), and nothing says whether it ends there: its shards state neither the "
            "number of ranks nor whole shapes, and no recipe does for these names",
        "if the family has a recipe, give its config.json (--hf_config) and leave --names "
        "module out; else join the shards with torch's consolidate_safetensors_files, "
        "where the files of all ranks are, and merge what it writes (torch 2.15 writes 0 for "
        "a tensor without dimensions)");
}

}  // namespace shardweld::app

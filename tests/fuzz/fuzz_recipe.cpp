// Any text as recipes and dialects, a file for each line that begins one: up to its lines, with
// what the files extend and take from one another, where they meet, and what conditions say of a
// config. Now and then among those built in, which takes much longer.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/expression.hpp"
#include "models/config.hpp"
#include "models/forms/saved_form.hpp"
#include "models/forms/written_form.hpp"
#include "models/pattern.hpp"
#include "models/reading/declaration.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

#include "expect.hpp"

namespace {

using namespace shardweld;

constexpr std::uint32_t kAmongAllEvery = 1024;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 11,
  "layer_types": ["full_attention", "sliding_attention"], "mlp_only_layers": [0], "b": {"c": 1},
  "per_layer_config": {"0": {"head_dim": 4}}, "hybrid_override_pattern": "M*",
  "tie_word_embeddings": false, "text_config": {"head_dim": 2, "rope_theta": 1e4}, "none": null})";

std::uint32_t hash_of(const std::string& text) {
    std::uint32_t hash = 2166136261U;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return hash;
}

/// The text cut before each line that begins a file.
std::vector<models::RecipeFile> files_of(const std::string& text) {
    std::vector<models::RecipeFile> files(1);
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
        end = std::min(text.size(), text.find('\n', at) + (text.find('\n', at) != text.npos));
        const std::string line = text.substr(at, end - at);
        const bool begins = line.starts_with("recipe ") || line.starts_with("dialect ");
        if (begins && !files.back().text.empty()) {
            files.emplace_back();
        }
        files.back().text += line;
        files.back().file_name = "fuzz" + std::to_string(files.size());
    }
    return files;
}

void evaluate(const models::Recipe& recipe, const models::Dialect& dialect) {
    static const models::Config config = models::Config::parse(kConfig, "config.json");
    const models::Symbols symbols(recipe, dialect, config, {{"t", 2}, {"te", 1}}, {{"value", 0}});
    for (const models::Line& line : recipe.hub) {
        fuzz::expect_errors_only([&] {
            models::Captures captures;
            for (const std::string& name : line.name.captures) {
                captures[name] = 1;
            }
            if (symbols.holds(line.condition, captures)) {
                static_cast<void>(layout::BoundLayout::bind(
                    line.layout,
                    [&](const std::string& axis) { return symbols.value(axis, captures); }));
            }
        });
    }
}

/// What aliases say of a name, in which layer 1 is looked for.
void match_aliases(const models::Recipe& recipe, const models::Dialect& dialect) {
    static const models::Config config = models::Config::parse(kConfig, "config.json");
    const models::Symbols symbols(recipe, dialect, config, {{"t", 2}, {"te", 1}}, {{"value", 0}});
    for (const models::AliasRule& rule : dialect.aliases) {
        models::Captures captures;
        for (const std::string& name : rule.from.captures) {
            captures[name] = 1;
        }
        const std::string name = models::format(rule.from, captures, {});
        std::string_view rest = name;
        fuzz::require(rule.from.match_beginning(rest) == captures && rest.empty());
        static_cast<void>(models::format(rule.to, captures, {}));
        fuzz::expect_errors_only(
            [&] { static_cast<void>(symbols.holds(rule.condition, captures)); });
    }
}

void check_forms(const models::Recipe& recipe, const models::Dialect& stored,
                 const std::vector<models::Dialect>& dialects) {
    for (const models::Dialect& form : dialects) {
        if (!form.written_format.empty()) {
            const models::WrittenForm made = models::written_form(recipe, stored, form);
            models::check_meeting(made.recipe, made.dialect);
        }
    }
    if (stored.lora) {
        static_cast<void>(models::lora_form(recipe, stored));
    }
}

void check_meetings(const std::vector<models::Recipe>& recipes,
                    const std::vector<models::Dialect>& dialects) {
    for (const models::Recipe& recipe : recipes) {
        for (const models::Dialect& dialect : dialects) {
            fuzz::expect_errors_only([&] {
                const models::Dialect own = models::own_names(recipe, dialect);
                models::check_meeting(recipe, own);
                evaluate(recipe, own);
                match_aliases(recipe, own);
                check_forms(recipe, own, dialects);
            });
        }
    }
}

/// What the built-in files declare.
const models::Declarations& built_in() {
    static const models::Declarations all = [] {
        models::Declarations entries;
        for (const models::RecipeFile& file : models::built_in_sources()) {
            if (!file.file_name.ends_with(models::kListEnding)) {
                models::declare(entries, file, false);
            }
        }
        return entries;
    }();
    return all;
}

/// The files among others: the recipes that are theirs, with all dialects.
void check_together(models::Declarations entries, const std::vector<models::RecipeFile>& files) {
    for (const models::RecipeFile& file : files) {
        models::declare(entries, file, true);
    }
    std::vector<models::Recipe> recipes;
    std::vector<models::Dialect> dialects;
    for (const auto& [name, entry] : entries) {
        if (entry.is_dialect) {
            dialects.push_back(models::with_lines(models::resolved_dialect(entries, entry)));
        } else if (entry.is_extra) {
            recipes.push_back(models::recipe_of(entries, entry));
        }
    }
    check_meetings(recipes, dialects);
}

void check(const std::string& text) {
    const std::vector<models::RecipeFile> files = files_of(text);
    const models::Declaration whole = models::inherit({}, models::parse_source(files[0]));
    models::check_lines(whole.top.lines);
    models::check_lines(models::expand(whole, whole.blocks, {}));
    models::check_lines(models::expand(whole, whole.modules, {}));
    check_together({}, files);
    if (hash_of(text) % kAmongAllEvery == 0) {
        check_together(built_in(), files);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::expect_errors_only([&] { check({reinterpret_cast<const char*>(data), size}); });
    return 0;
}

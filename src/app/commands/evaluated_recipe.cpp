#include "evaluated_recipe.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/family/saved_type.hpp"
#include "core/json.hpp"
#include "core/names/config_fields.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "models/forms/hub_tensors.hpp"
#include "models/forms/saved_form.hpp"
#include "models/spellings.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

using nlohmann::ordered_json;

namespace {

constexpr int kRecipeSchema = 1;

std::string text_of_logical(const models::HubTensor& tensor) {
    std::string text = tensor.line->logical;
    const auto captures = tensor.line->name.match(tensor.name, [](const auto&) { return 0; });
    if (captures) {
        for (const auto& [name, value] : *captures) {
            const std::string capture = "{" + name + "}";
            const std::size_t at = text.find(capture);
            if (at != std::string::npos) {
                text.replace(at, capture.size(), std::to_string(value));
            }
        }
    }
    return text;
}

bool is_linear_weight(const models::Recipe& recipe, const models::Line& line) {
    const std::string part = line.logical.substr(line.logical.rfind('.') + 1);
    return std::ranges::any_of(recipe.linear,
                               [&](const auto& together) { return contains(together, part); });
}

void take_expected(const models::Recipe& recipe, const models::Symbols& symbols,
                   EvaluatedRecipe& found) {
    const models::Spellings spellings(recipe);
    for (models::HubTensor& tensor : models::hub_tensors(recipe, symbols)) {
        const bool is_optional = tensor.line->optional || tensor.line->together;
        std::string logical = text_of_logical(tensor);
        found.tensors[tensor.name] = {std::move(tensor.shape),
                                      tensor.line->keep,
                                      is_optional,
                                      is_linear_weight(recipe, *tensor.line),
                                      spellings.others(tensor.name),
                                      std::move(logical),
                                      tensor.line};
    }
}

Index elements_of(const std::vector<Index>& shape) {
    return volume_of(shape, "a shape of config.json");
}

Index elements_of_logical(const EvaluatedRecipe& found, const std::string& logical) {
    Index sum = 0;
    for (const auto& [name, tensor] : found.tensors) {
        sum += tensor.logical == logical ? elements_of(tensor.shape) : 0;
    }
    return sum;
}

/// Tensors of the tree of modules that have no name of their own on the Hub.
void take_whole(const models::Recipe& recipe, const models::Symbols& symbols,
                EvaluatedRecipe& found) {
    const models::Spellings spellings(recipe);
    models::Recipe tree = recipe;
    tree.hub = recipe.module;
    for (const models::HubTensor& tensor : models::hub_tensors(tree, symbols)) {
        if (found.tensors.contains(tensor.name)) {
            continue;
        }
        std::vector<std::string> names = spellings.others(tensor.name);
        names.push_back(tensor.name);
        const std::string logical = text_of_logical(tensor);
        auto& parts = found.module_parts[logical];
        // What has all elements is another form, not another part.
        if (!parts.empty() && elements_of(tensor.shape) == elements_of_logical(found, logical)) {
            append_all(parts.front(), std::move(names));
        } else {
            parts.push_back(std::move(names));
        }
    }
}

/// Notes beginnings of names, and both names of a language model's root where the family renames
/// it.
void take_renames(const models::Recipe& recipe, EvaluatedRecipe& found) {
    for (const models::RenameRule& rule : recipe.renames) {
        if (rule.dialect.empty()) {
            found.renames.emplace_back(rule.from, rule.to);
        }
        if (rule.to.starts_with("language_model.") && rule.from.ends_with("language_model.")) {
            found.roots.insert(found.roots.end(), {rule.to, rule.from});
        }
    }
}

models::Symbols symbols_of(const models::RecipeLibrary& library, const models::Recipe& recipe,
                           const models::Config& config) {
    const bool is_value = config.model_class() == models::ModelClass::token_classification;
    return {recipe,
            models::own_names(recipe, *library.find_dialect("hf_module")),
            config,
            {},
            {{"value", is_value ? 1 : 0}}};
}

bool ends_so(std::string_view name, std::string_view entry) {
    return std::ranges::any_of(split(entry, '|'), [&](std::string_view ending) {
        return name == ending || name.ends_with("." + std::string(ending));
    });
}

/// Whether the family has optional lines that end so, but makes no such tensor of this config.json.
bool is_of_no_tensor(const models::Recipe& recipe, const EvaluatedRecipe& found,
                     std::string_view entry) {
    return std::ranges::any_of(recipe.hub,
                               [&](const auto& line) {
                                   return line.optional && !line.together &&
                                          ends_so(line.name.text, entry);
                               }) &&
           std::ranges::none_of(found.tensors,
                                [&](const auto& one) { return ends_so(one.first, entry); });
}

/// A condition on a field that is not there does not hold.
void take_needs(const models::Recipe& recipe, const models::Symbols& symbols,
                EvaluatedRecipe& found) {
    for (const models::NamesRule& rule : recipe.needs) {
        if (rule.condition == nullptr || symbols.try_expr(rule.condition).value_or(0) != 0) {
            std::ranges::copy_if(
                rule.names, std::back_inserter(found.needs),
                [&](const auto& entry) { return !is_of_no_tensor(recipe, found, entry); });
        }
    }
}

/// The language model's configuration in a composite one, "" where there is none.
std::string inner_config(const std::string& text) {
    const nlohmann::json config = parse_json<nlohmann::json>(without_nonfinite(text));
    for (const std::string_view path : kInnerConfigs) {
        const auto at = config.find(path);
        if (at != config.end() && at->is_object()) {
            return at->dump();
        }
    }
    return "";
}

/// Takes the layers from the language model's own family where `outer` knows only the tensors
/// before and behind them.
void take_layers_inside(const models::RecipeLibrary& library, const models::Recipe& outer,
                        const models::Config& outer_config, EvaluatedRecipe& found) {
    constexpr std::string_view kBelow = "language_model.";
    constexpr std::string_view kLayer = "layer.";
    const bool has_ends = std::ranges::any_of(
        found.tensors, [&](const auto& entry) { return entry.first.starts_with(kBelow); });
    const std::string text = has_ends ? inner_config(outer_config.text_to_write()) : "";
    if (text.empty() || std::ranges::any_of(found.tensors, [&](const auto& entry) {
            return entry.second.logical.starts_with(kLayer);
        })) {
        return;
    }
    const auto config = models::Config::parse(text, outer_config.origin());
    const models::Recipe& recipe = models::recipe_for(library, config);
    EvaluatedRecipe inner;
    take_expected(recipe, symbols_of(library, recipe, config), inner);
    for (auto& [name, tensor] : inner.tensors) {
        if (tensor.logical != "head") {
            std::string below = std::string(kBelow) + name;
            tensor.spellings = models::Spellings(outer).others(below);
            found.tensors.emplace(std::move(below), std::move(tensor));
        }
    }
}

/// What went wrong in `step`; "" for nothing.
template <typename Step>
std::string recipe_fault(const Step& step) {
    try {
        step();
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

void take_sizes(const models::Recipe& recipe, const models::RecipeLibrary& library,
                const models::Symbols& symbols, EvaluatedRecipe& found) {
    for (const auto* definitions :
         {&recipe.symbols, &library.find_dialect("hf_module")->defaults}) {
        for (const auto& definition : *definitions) {
            (void)recipe_fault([&] {
                if (const auto value = symbols.try_value(definition.first)) {
                    found.sizes[definition.first] = *value;
                }
            });
        }
    }
}

std::vector<std::string> indices_of(const models::Recipe& recipe) {
    std::vector<std::string> names;
    for (const auto& [name, definition] : recipe.symbols) {
        if (definition.is_index) {
            names.push_back(name);
        }
    }
    return names;
}

/// As bytes that any terminal takes.
std::string text_of_json(const ordered_json& value) {
    return value.dump(-1, ' ', true);
}

ordered_json line_json(const models::Line& line, const char* part) {
    return {{"part", part},
            {"name", line.name.text},
            {"logical", line.logical},
            {"layout", line.layout.text},
            {"dims", line.layout.dims.size()},
            {"optional", line.optional || line.together},
            {"origin", line.origin}};
}

models::Config config_in(const fs::path& directory) {
    const fs::path path = directory / "config.json";
    return models::Config::parse(io::read_text(path, models::kMaxConfig), path.string());
}

ordered_json evaluated_json(const std::string& name, const EvaluatedTensor& tensor,
                            std::size_t line) {
    return {
        {"name", name},
        {"shape", tensor.shape},
        {"dtype", tensor.dtype ? ordered_json(safetensors_name(*tensor.dtype)) : ordered_json()},
        {"optional", tensor.is_optional},
        {"linear", tensor.is_linear},
        {"spellings", tensor.spellings},
        {"logical", tensor.logical},
        {"line", line}};
}

/// A tensor a line: there may be a million.
void print_evaluated(const EvaluatedRecipe& recipe, const fs::path& directory, std::ostream& out) {
    constexpr auto text = text_of_json;
    // By the numbers that tensors name.
    ordered_json lines = ordered_json::array();
    std::map<const models::Line*, std::size_t> numbers;
    const auto number_of = [&](const models::Line& line, const char* part) {
        const auto [at, is_new] = numbers.emplace(&line, lines.size());
        if (is_new) {
            lines.push_back(line_json(line, part));
        }
        return at->second;
    };
    ordered_json indices = ordered_json::array();
    if (recipe.recipe != nullptr) {
        for (const models::Line& line : recipe.recipe->hub) {
            number_of(line, "hub");
        }
        for (const models::Line& line : recipe.recipe->module) {
            number_of(line, "module");
        }
        indices = indices_of(*recipe.recipe);
    }
    out << "{\n\"schema\": " << kRecipeSchema << ",\n\"ok\": " << text(recipe.fault.empty())
        << ",\n\"dir\": " << text(directory.string()) << ",\n\"recipe\": " << text(recipe.family)
        << ",\n\"fault\": " << text(printable(recipe.fault, recipe.fault.size()))
        << ",\n\"passes\": " << text(recipe.passes) << ",\n\"needs\": " << text(recipe.needs)
        << ",\n\"roots\": " << text(recipe.roots) << ",\n\"renames\": " << text(recipe.renames)
        << ",\n\"renamed\": " << text(recipe.renamed)
        << ",\n\"module_parts\": " << text(recipe.module_parts)
        << ",\n\"transformers\": " << text(models::saving_library())
        << ",\n\"transformers_types\": " << text(models::saving_types()) << ",\n\"tensors\": [";
    for (const char* between = "\n"; const auto& [name, tensor] : recipe.tensors) {
        // Those of another recipe are the language model's inside.
        out << between << text(evaluated_json(name, tensor, number_of(*tensor.line, "inside")));
        between = ",\n";
    }
    out << "],\n\"lines\": " << text(lines) << ",\n\"sizes\": " << text(recipe.sizes)
        << ",\n\"indices\": " << text(indices) << "\n}\n";
}

}  // namespace

EvaluatedRecipe evaluate_recipe(const models::RecipeLibrary& library, const models::Recipe& recipe,
                                const models::Config& config) {
    EvaluatedRecipe found;
    found.family = recipe.name;
    found.recipe = &recipe;
    found.passes = recipe.passes;
    take_renames(recipe, found);
    const models::Symbols symbols = symbols_of(library, recipe, config);
    if (models::promises_tensors(
            recipe)) {  // others say how tensors are called, not which there are
        found.fault = recipe_fault([&] { take_expected(recipe, symbols, found); });
    }
    if (!found.fault.empty()) {
        found.tensors.clear();
    } else if (!recipe_fault([&] { take_whole(recipe, symbols, found); }).empty()) {
        found.module_parts.clear();
    }
    (void)recipe_fault([&] { take_needs(recipe, symbols, found); });
    take_sizes(recipe, library, symbols, found);
    (void)recipe_fault([&] { take_layers_inside(library, recipe, config, found); });
    return found;
}

void print_evaluated_recipe(const models::RecipeLibrary& library, const std::string& name,
                            const fs::path& directory, std::ostream& out) {
    EvaluatedRecipe found;
    const fs::path path = directory / "config.json";
    try {
        const models::Config config = config_in(directory);
        found.renamed = models::SavedModel(config, known_type(config)).renamed_parts();
        const models::Recipe* named = library.find_recipe(name);
        named = named == nullptr ? library.find_generated(name) : named;
        const models::Recipe& recipe =
            named == nullptr ? models::recipe_for(library, config) : *named;
        const std::vector<std::string> renamed = std::move(found.renamed);
        found = evaluate_recipe(library, recipe, config);
        if (!models::promises_tensors(recipe)) {
            found.renamed = renamed;
        }
    } catch (const Error& error) {
        found.fault = error.what();
        print_evaluated(found, directory, out);
        throw;
    }
    print_evaluated(found, directory, out);
    if (!found.fault.empty()) {
        throw Error(ErrorCode::mismatch, path.string() + ": " + found.fault,
                    "take config.json from the model that was trained");
    }
}

void print_families(const models::RecipeLibrary& library, const fs::path& directory,
                    std::ostream& out) {
    const models::Config config = config_in(directory);
    out << "{\n\"schema\": " << kRecipeSchema
        << ",\n\"ok\": true,\n\"dir\": " << text_of_json(directory.string())
        << ",\n\"model_type\": " << text_of_json(config.text("model_type").value_or(""))
        << ",\n\"families\": [";
    const char* between = "\n";
    for (const models::Recipe* recipe : library.recipes()) {
        std::map<std::string, std::vector<Index>> shapes;
        const std::string fault = recipe_fault([&] {
            for (auto& tensor :
                 models::hub_tensors(*recipe, symbols_of(library, *recipe, config))) {
                shapes.emplace(std::move(tensor.name), std::move(tensor.shape));
            }
        });
        if (recipe->match != nullptr && fault.empty()) {
            out << between
                << text_of_json(
                       {{"recipe", recipe->name}, {"depth", recipe->depth}, {"tensors", shapes}});
            between = ",\n";
        }
    }
    out << "]\n}\n";
}

void print_dialect(const models::Dialect& dialect, std::ostream& out) {
    std::vector<ordered_json> rows = collect_list(
        dialect.store, [&](const models::Line& line) { return line_json(line, "store"); });
    out << text_of_json({{"schema", kRecipeSchema},
                         {"ok", true},
                         {"dialect", dialect.name},
                         {"has_own_names", dialect.has_own_names},
                         {"store", rows}})
        << "\n";
}

}  // namespace shardweld::app

// `shardweld recipes`: the model families that are known.
// Knows recipes as texts; nothing of checkpoints.

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/whole_file.hpp"
#include "shardweld/models/recipe.hpp"

#include "../cli/nearest.hpp"
#include "../cli/table.hpp"
#include "commands.hpp"

namespace shardweld::app {

namespace {

models::RecipeLibrary load(const Options& options) {
    if (!options.recipe) {
        return models::RecipeLibrary::load();
    }
    return models::RecipeLibrary::load({{options.recipe->filename().string(),
                                         io::read_text(*options.recipe, models::kMaxRecipe)}});
}

/// The condition as it stands in the file, e.g. `@model_type = "qwen2" | "qwen"`.
std::string match_text(const models::RecipeLibrary& library, const std::string& name) {
    const models::RecipeFile* source = library.source_of(name);
    if (source == nullptr) {
        return "";
    }
    for (const std::string_view line : split(source->text, '\n')) {
        const std::string_view words = trim(line);
        if (words.starts_with("match ")) {
            return std::string(trim(words.substr(0, words.find('#')).substr(6)));
        }
    }
    return "";
}

/// Lines of at most `width` letters, broken at commas.
std::vector<std::string> broken(const std::string& text, std::size_t width) {
    std::vector<std::string> lines{""};
    for (const std::string_view part : split(text, ',')) {
        if (lines.back().size() + part.size() + 1 > width) {
            lines.emplace_back();
        }
        lines.back() += lines.back().empty() ? std::string(trim(part)) : "," + std::string(part);
    }
    return lines;
}

/// The model types that a recipe is for, "llama, mistral"; any other condition as it stands.
std::vector<std::string> types_of(const models::RecipeLibrary& library, const std::string& name) {
    constexpr std::string_view kTypes = "@model_type = ";
    constexpr std::size_t kTypesWidth = 36;
    std::string text = match_text(library, name);
    if (text.starts_with(kTypes) && text.find(" and ") == std::string::npos) {
        text = replaced(replaced(text.substr(kTypes.size()), " |", ","), "\"", "");
    }
    return broken(text, kTypesWidth);
}

/// The form of a checkpoint, which its name tells.
std::string_view form_of(std::string_view checkpoint) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kForms = {
        {{"-legacy", "legacy"},
         {"-torchdist", "torch_dist"},
         {"-zarr", "zarr"},
         {"dcp_", "DCP"},
         {"torchtitan_", "torchtitan"}}};
    for (const auto& [part, form] : kForms) {
        if (checkpoint.find(part) != std::string_view::npos) {
            return form;
        }
    }
    return "FSDP";
}

bool is_megatron(std::string_view form) {
    return form != "FSDP" && form != "DCP" && form != "torchtitan";
}

/// "3 legacy, 2 torch_dist": the checkpoints of a kind that verify a recipe; "" if there are none.
std::string verified_by(const models::Recipe& recipe, bool by_megatron) {
    std::map<std::string_view, int> counts;
    for (const std::string_view checkpoint : split(recipe.verified, ',')) {
        const std::string_view form = form_of(checkpoint);
        if (!checkpoint.empty() && is_megatron(form) == by_megatron) {
            ++counts[form];
        }
    }
    return joined(counts, ", ", [](const auto& form) {
        return std::to_string(form.second) + " " + std::string(form.first);
    });
}

std::string megatron_cell(const models::RecipeLibrary& library, const models::Recipe& recipe) {
    const models::Dialect* dialect = library.find_dialect("megatron_core");
    if (dialect == nullptr || !library.can_meet(recipe, *dialect)) {
        return "-";
    }
    const std::string text = verified_by(recipe, true);
    return text.empty() ? "unverified" : text;
}

std::string module_cell(const models::Recipe& recipe) {
    const std::string text = verified_by(recipe, false);
    return text.empty() ? "by shape" : text;
}

/// Families by formats.
std::string listing(const models::RecipeLibrary& library) {
    std::vector<std::vector<std::string>> cells{
        {"recipe", "model_type in config.json", "Megatron", "FSDP, DCP, HF"}};
    for (const models::Recipe* recipe : library.recipes()) {
        const std::vector<std::string> types = types_of(library, recipe->name);
        cells.push_back(
            {recipe->name, types.front(), megatron_cell(library, *recipe), module_cell(*recipe)});
        for (std::size_t i = 1; i < types.size(); ++i) {
            cells.push_back({"", types[i]});
        }
    }
    std::string text = table(std::vector<Align>(4, Align::left), cells);
    text +=
        "\n3 legacy: compared bit by bit with what the framework makes of 3 such checkpoints; "
        "shardweld\n"
        "recipes NAME names them. unverified: read, with a warning: compare the result. by shape: "
        "the "
        "same,\n"
        "and every name and shape is checked. -: refused. Families without a row keep the names "
        "of FSDP,\n"
        "DCP, HF.\n"
        "dialects:";
    for (const models::Dialect* dialect : library.dialects()) {
        text += " " + dialect->name;
    }
    return text + "\n";
}

}  // namespace

int recipes(const Options& options, std::ostream& out) {
    const models::RecipeLibrary library = load(options);
    if (options.topic.empty()) {
        out << listing(library);
        return 0;
    }
    const models::RecipeFile* source = library.source_of(options.topic);
    if (source == nullptr) {
        std::vector<std::string> known;
        for (const models::Recipe* recipe : library.recipes()) {
            known.push_back(recipe->name);
        }
        throw Error(ErrorCode::usage, "there is no recipe or dialect " + printable(options.topic),
                    suggestion(options.topic, known) + " (shardweld recipes lists them)");
    }
    out << source->text;
    return 0;
}

}  // namespace shardweld::app

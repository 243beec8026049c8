#include "recipes.hpp"

#include <algorithm>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/models/recipe.hpp"

#include "../cli/nearest.hpp"
#include "../cli/table.hpp"

namespace shardweld::app {

namespace {

models::Library load(const Options& options) {
    if (!options.recipe) {
        return models::Library::load();
    }
    return models::Library::load({{options.recipe->filename().string(),
                                   io::read_text(*options.recipe, models::kMaxRecipe)}});
}

/// The condition as it stands in the file, e.g. `@model_type = "qwen2"`.
std::string match_text(const models::Library& library, const std::string& name) {
    const models::Source* source = library.source_of(name);
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

std::string listing(const models::Library& library) {
    std::vector<std::vector<std::string>> cells{{"recipe", "for configs with", "verified by"}};
    for (const models::Recipe* recipe : library.recipes()) {
        cells.push_back({recipe->name, match_text(library, recipe->name),
                         recipe->verified.empty() ? "unverified" : recipe->verified});
    }
    std::string text = table({Align::left, Align::left, Align::left}, cells);
    text += "\ndialects:";
    for (const models::Dialect* dialect : library.dialects()) {
        text += " " + dialect->name;
    }
    return text + "\n";
}

}  // namespace

int recipes(const Options& options, std::ostream& out) {
    const models::Library library = load(options);
    if (options.topic.empty()) {
        out << listing(library);
        return 0;
    }
    const models::Source* source = library.source_of(options.topic);
    if (source == nullptr) {
        std::vector<std::string> known;
        for (const models::Recipe* recipe : library.recipes()) {
            known.push_back(recipe->name);
        }
        throw Error(ErrorCode::usage, "there is no recipe or dialect " + printable(options.topic) +
                                          suggestion(options.topic, known) +
                                          " (shardweld recipes lists them)");
    }
    out << source->text;
    return 0;
}

}  // namespace shardweld::app

// Small things the tests of recipes share: errors as text, toy files, hub names of a config.
#pragma once

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "models/forms/hub_tensors.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

/// "usage: message" of the Error that `run` throws, "no error" if none.
inline std::string error_of(const std::function<void()>& run) {
    try {
        run();
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.full_text();
    }
    return "no error";
}

inline std::string error_of_load(const std::vector<RecipeFile>& extra) {
    return error_of([&] { RecipeLibrary::load(extra); });
}

/// A row of recipe_rows.txt.
struct Asked {
    std::string text;
    std::string answer;
};

/// Those of a verb, of which there are so many.
inline std::vector<Asked> asked(const std::string& verb, std::size_t count) {
    std::ifstream file(SHARDWELD_TEST_DATA "/../unit/models/recipe_rows.txt");
    std::vector<Asked> rows;
    for (std::string line; std::getline(file, line);) {
        const std::size_t mark = line.find(" => ");
        if (line.starts_with(verb + " ")) {
            rows.push_back(
                {line.substr(verb.size() + 1, mark - verb.size() - 1), line.substr(mark + 4)});
        }
    }
    EXPECT_EQ(rows.size(), count) << verb;
    return rows;
}

/// A dialect with two logical tensors in a block, and one on its own.
inline RecipeFile toy_dialect(const std::string& more = "") {
    return {"toy.dialect",
            "dialect toy\n"
            "fact t\n"
            "default t = 1\n"
            "block layer\n"
            "  w.{a|b}    = w   (t [x: i | y: i]) j  <tp 0>\n"
            "  norm       = norm  j\n"
            "at dec.{l}. = layer.{l}. layer stacked l\n"
            "store emb   = emb  [v: vocab | pad: *] j  <tp 0>  drop pad\n" +
                more};
}

inline RecipeFile toy_recipe(const std::string& more = "") {
    return {"toy.recipe",
            "recipe toy_model\n"
            "uses toy\n"
            "match @model_type = \"toy\"\n"
            "let i = @inner / t\n"
            "let j = @outer\n"
            "let vocab = 7\n"
            "index l = @layers\n"
            "block layer\n"
            "  x.weight = w  x: (t i) j\n"
            "  y.weight = w  y: (t i) j\n"
            "  norm.weight = norm j\n"
            "at m.{l}. = layer.{l}. layer\n"
            "hub emb = emb v: vocab j\n" +
                more};
}

inline Config config_of(const std::string& json) {
    return Config::parse(json, "config.json");
}

/// "name [shape]" of every tensor that is written, in the order of the lines.
inline std::vector<std::string> hub_names(const Recipe& recipe, const Symbols& symbols) {
    std::vector<std::string> names;
    for (const HubTensor& tensor : hub_tensors(recipe, symbols)) {
        names.push_back(tensor.name + " " + shape_text(tensor.shape));
    }
    return names;
}

/// Hub names of a config with the built-in files.
inline std::vector<std::string> built_in_names(const std::string& json,
                                               std::map<std::string, Index> given = {}) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Config config = config_of(json);
    const Recipe& recipe = recipe_for(library, config);
    const Symbols symbols(recipe, *library.find_dialect("megatron_core"), config, {},
                          std::move(given));
    return hub_names(recipe, symbols);
}

}  // namespace shardweld::models

// A recipe with the values of one config.json: which tensors a model of the family has.
#pragma once

#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"

namespace shardweld::app {

/// A tensor that a model of one config.json has.
struct EvaluatedTensor {
    std::vector<Index> shape;
    std::optional<DType> dtype;  ///< nullopt: the model's own
    bool is_optional = false;    ///< models without it are whole
    bool is_linear = false;      ///< the weight of a linear layer
    /// Other names in use for it on the Hub, and that in the tree of transformers' modules.
    std::vector<std::string> spellings;
    std::string logical;  ///< the recipe's tensor that it is, or is a part of ("layer.0.qkv")
    const models::Line* line = nullptr;  ///< that makes it
};

/// All tensors of the model that one config.json describes.
struct EvaluatedRecipe {
    std::string family;  ///< the recipe's name; "": there is none for the config.json
    std::string fault;   ///< why there are no tensors; "": there are
    std::map<std::string, EvaluatedTensor> tensors;  ///< by name on the Hub
    /// Tensors of the tree of transformers' modules that together stand for a recipe's tensor, by
    /// that: of each the names that it may have.
    std::map<std::string, std::vector<std::vector<std::string>>> module_parts;
    std::vector<std::string> passes;  ///< names that it lets pass, with '*'
    std::vector<std::string> needs;   ///< ends of names that are there; '|' between alternatives
    /// How names of the language model begin, where all of them pass; none: not known.
    std::vector<std::string> roots;
    const models::Recipe* recipe = nullptr;
    std::map<std::string, Index> sizes;  ///< symbols that the config.json has values for
    /// How names begin in the tree of modules, and on the Hub.
    std::vector<std::pair<std::string, std::string>> renames;
    /// Without a recipe: parts of names of the tree of modules that transformers saves otherwise.
    std::vector<std::string> renamed;
};

/// The tensors that a recipe has with a config.json, whose faults are in `fault`. A composite
/// family may know those before and behind the layers alone: its language model's own family tells
/// of the layers.
EvaluatedRecipe evaluate_recipe(const models::RecipeLibrary& library, const models::Recipe& recipe,
                                const models::Config& config);

/// Prints, as JSON, the recipe of that name ("": the one for the config.json) evaluated for
/// `directory`/config.json, and which model types transformers knows; also where there is no such
/// recipe or it makes nothing of the config.json, with the reason in `fault`. Then Error(mismatch)
/// or what was thrown; Error(usage) for a name that is no recipe's.
void print_evaluated_recipe(const models::RecipeLibrary& library, const std::string& name,
                            const fs::path& directory, std::ostream& out);

/// Prints, as JSON, the names and shapes that each family makes of `directory`/config.json, those
/// that make none left out. Errors of reading config.json.
void print_families(const models::RecipeLibrary& library, const fs::path& directory,
                    std::ostream& out);

/// Prints, as JSON, the stored names of a framework.
void print_dialect(const models::Dialect& dialect, std::ostream& out);

}  // namespace shardweld::app

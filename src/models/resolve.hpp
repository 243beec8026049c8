// A file's declaration with everything it extends and takes with it, as a recipe or a dialect.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "declaration.hpp"
#include "recipe.hpp"

namespace shardweld::models {

/// A declaration with everything inherited put in: lines are final, guards are in their conditions.
struct FullDeclaration {
    Declaration declaration;  ///< its blocks, modules and lines are used up
    std::map<std::string, std::vector<Line>> blocks;
    std::map<std::string, std::vector<Line>> modules;
    std::vector<Line> lines;
    int depth = 0;  ///< number of `extends` above it
};

/// `child` on top of `base`. Error(usage) for a guard or `without` that meets no inherited line.
FullDeclaration inherit(FullDeclaration base, Declaration child);

/// All lines with their full names: `at` blocks and stacked forms expanded. Error(usage) for an
/// unknown block or a form that cannot be stacked.
std::vector<Line> expand(const FullDeclaration& whole,
                         const std::map<std::string, std::vector<Line>>& blocks);

/// What is kept of a file: all of them parsed would be megabytes, of which a run needs a few.
struct FoundDeclaration {
    bool is_dialect = false;
    std::string origin;  ///< "llama.recipe:1"
    ExprPtr match;
    std::shared_ptr<const RecipeFile> source;  ///< the built-in ones themselves
    bool is_extra = false;
    std::vector<std::string> bases = {};  ///< what it extends and takes with it

    /// The whole file, parsed.
    [[nodiscard]] Declaration declaration() const { return parse_source(*source); }
};

/// Adds a file, of a built-in one its head alone; an extra one is parsed whole and replaces a
/// built-in one of its name. Error(usage) for a second one of the same kind.
void declare(Declarations& entries, const RecipeFile& source, bool is_extra);

/// nullptr if there is none of that kind.
const FoundDeclaration* find_in(const Declarations& entries, std::string_view name,
                                bool is_dialect);

/// Whether a file of the user has a say in the declaration: its own, or one that it rests on.
bool rests_on_extra(const Declarations& entries, std::string_view name);

/// Error(usage) naming the file and line: a name that is not declared, a cycle, `extends` more than
/// 8 deep, or lines that do not fit what they change.
Recipe recipe_of(const Declarations& entries, const FoundDeclaration& entry);
Dialect dialect_of(const Declarations& entries, const FoundDeclaration& entry);

}  // namespace shardweld::models

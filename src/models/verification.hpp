// What recipes were checked against, by format: a list that scripts/verified.py makes from the
// tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe.hpp"

namespace shardweld::models {

/// The evidence that a recipe is right.
enum class Verified {
    no,
    names,  ///< held against tables of names and shapes of real models
    files,  ///< compared byte for byte with files of the real framework
};

/// "files", "names", "no".
std::string_view name_of(Verified level);

/// A recipe in one format.
struct Verification {
    std::string format;
    Verified level = Verified::no;
    std::vector<std::string> by;  ///< checkpoints, or tables
};

/// All that is known of a recipe: formats of which there are files, and "names". For a recipe given
/// at run time it is what `verified by` names there, for any format ("").
std::vector<Verification> verifications_of(const Recipe& recipe);

/// What was checked in a format. Names and shapes are those of a module tree: they say nothing of a
/// dialect with names of its own.
Verification verification_in(const Recipe& recipe, std::string_view format, bool has_own_names);

/// The list's name among built_in_sources().
inline constexpr std::string_view kVerifiedList = "verified.list";

}  // namespace shardweld::models

// `extends`: a file's statements on top of those it inherits.
// Knows declarations; knows neither symbols' values nor how a file is written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "declaration.hpp"

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

}  // namespace shardweld::models

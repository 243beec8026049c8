// Whether a checkpoint's files are what their names say, and of one save.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "file.hpp"

namespace shardweld::catalogue {

/// How sure it is that every file is in its place and of one save.
enum class Standing {
    proved,      ///< every file says itself which part of the save it is, and of which save
    consistent,  ///< what is said agrees, but not every file says both
    unknown,     ///< nothing but names tells
};

std::string name_of(Standing standing);

/// The verdict on where a checkpoint's files come from.
struct Provenance {
    Standing standing = Standing::unknown;
    /// What was compared and what is missing, for people.
    std::vector<std::string> evidence = {};
};

/// Holds all statements against each other. `files`: those that hold tensors. Pure.
/// Error(mismatch) naming both claims and their files where two contradict each other, or where two
/// files say that they are the same part.
Provenance compare_statements(std::span<const File> files,
                              std::span<const FileAssertion> statements);

/// "proved: args in 4 of 4 files (iteration, rank)", one line.
std::string text_of(const Provenance& provenance);

}  // namespace shardweld::catalogue

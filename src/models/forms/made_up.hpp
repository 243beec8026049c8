// What a written line has where the model has nothing: a framework's padding, rows that equal
// others.
#pragma once

#include <optional>

#include "models/recipe.hpp"

namespace shardweld::models {

/// Gives '*' the extent of the framework's padding, or so many rows. `made` gets the symbols.
void fill_up(Line& line, std::optional<Index> rows, Recipe& made);

/// A dropped segment that is written as the one before it is that one twice: `[k: d | v: d]`, with
/// `drop v as k`.
void write_twice(Line& line, Recipe& made);

/// Whether it holds nothing of the model, and zeros stand for that.
bool is_filled(const Line& line);

}  // namespace shardweld::models

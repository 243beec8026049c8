// Checks of files against each other, made once when they are loaded.
#pragma once

#include "recipe.hpp"

namespace shardweld::models {

/// No axis of a line may be a capture of its name. Error(usage) naming the line.
void check_lines(const std::vector<Line>& lines);

/// A recipe and a dialect it meets: all lines of one (logical tensor, segment) that can hold
/// together use the same axes (captures are axes, `fuse` applied); every segment of a hub line is
/// stored by some line; every name the recipe uses is defined. Error(usage) naming both lines.
void check_meeting(const Recipe& recipe, const Dialect& dialect);

}  // namespace shardweld::models

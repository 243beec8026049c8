// Names from patterns: writing a pattern for given index values, and what its conditions see.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"

#include "recipe.hpp"

namespace shardweld::models {

/// The name a pattern stands for: each capture's value in decimal, plus its symbol's where it has
/// one. Error(internal) when a capture has no value.
std::string format(const Pattern& pattern, const Captures& captures, const SymbolValue& value_of);

/// A logical name with the values of captures: "layer.3.qkv". Those that it does not hold are
/// passed over, and those without a value stay open: "layer.{l}.qkv".
std::string filled(std::string logical, const Captures& captures);

/// What the conditions of a line with this name see. In a name with '{k+L}' the sum is the layer's
/// number in the model, so conditions also see l = k + L; the same by Pattern::layer. Otherwise the
/// captures unchanged.
Captures captures_for_condition(const Pattern& pattern, const Captures& captures,
                                const SymbolValue& value_of);

/// "{a|b}.c" as {"a.c", "b.c"}, in the order written; braces without '|' are captures and stay.
/// Error(usage) for unbalanced braces or more than 64 results, beginning with where the text stands
/// ("llama.recipe:24") if that is given.
std::vector<std::string> expand_alternatives(std::string_view text, const std::string& origin = "");

/// A name without one of its captures and the dot behind it, "layers.{l}.a" as "layers.a". Error
/// (usage), beginning with `origin`, where there is none.
std::string without_capture(std::string name, const std::string& capture,
                            const std::string& origin);

/// Pattern::parse of a name in a file, whose place its errors begin with.
Pattern parse_pattern(std::string_view text, const std::string& origin);

/// Pattern::parse of both texts, one behind the other, of which each is a pattern of its own.
Pattern concatenated(const Pattern& front, const Pattern& back, const std::string& origin);

using shardweld::digits_hidden;
/// What digits_hidden gives for every name that the pattern matches.
std::string digits_hidden(const Pattern& pattern);

}  // namespace shardweld::models

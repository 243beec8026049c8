// A value of config.json as recipes see it, and a checkpoint's statement as such a value.
// Knows no field and no rule.
#pragma once

#include <string>
#include <variant>

#include "core/index.hpp"

namespace shardweld::models {

using FieldValue = std::variant<std::monostate, Index, double, std::string>;

/// "true"/"false" as 1/0, numbers as numbers, anything else as text.
FieldValue claim_value(const std::string& text);

/// A real number that is whole as an integer (10000.0 is 10000), others unchanged.
FieldValue integral(double value);

}  // namespace shardweld::models

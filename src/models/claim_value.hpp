// Values as the checkpoint states them, in the types config.json's values have.
// Knows no field and no rule.
#pragma once

#include <string>

#include "shardweld/models/config.hpp"

namespace shardweld::models {

/// "true"/"false" as 1/0, numbers as numbers, anything else as text.
FieldValue claim_value(const std::string& text);

/// A real number that is whole as an integer (10000.0 is 10000), others unchanged.
FieldValue integral(double value);

}  // namespace shardweld::models

// What the factors of a LoRA adapter are factors of, as stored tensors.
#pragma once

#include "models/recipe.hpp"

namespace shardweld::models {

/// The dialect, with lines for the segments of fused weights under the names of canonical factors
/// A: the product of such a pair is one segment of the weight. `dialect` has `lora`.
Dialect lora_products(const Dialect& dialect);

}  // namespace shardweld::models

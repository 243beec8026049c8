// Names of classes and model types, as transformers spells both.
#pragma once

#include <string>
#include <string_view>

namespace shardweld::models {

/// Letters and digits alone, in small letters.
std::string squeezed(std::string_view name);

/// "Qwen3Moe" of "Qwen3MoeForCausalLM", the same for other classes of a family.
std::string_view family_of_class(std::string_view name);

}  // namespace shardweld::models

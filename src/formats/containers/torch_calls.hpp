// The calls in which torch pickles parameters and subclasses of tensors.
// Knows their names; nothing of what they wrap. Sources: torch 2.15, torch/_utils.py and
// torch/_tensor.py; the older spellings are those of torch 0.4 to 1.13.
#pragma once

#include <string_view>

namespace shardweld::formats {

/// (tensor, ...).
bool is_parameter_call(std::string_view name);

/// (function, type, the function's arguments, state).
bool is_subclass_call(std::string_view name);

}  // namespace shardweld::formats

// JSON files of checkpoints as values.
// Knows limits; knows no file's fields.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace shardweld::formats {

/// The value; a discarded one (is_discarded()) when the text is no valid JSON or nested deeper than
/// any file of a checkpoint.
nlohmann::json parse_json(std::string_view text);

}  // namespace shardweld::formats

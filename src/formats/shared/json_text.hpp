// JSON files of checkpoints as values.
// Knows limits; knows no file's fields.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace shardweld::formats {

/// The value; a discarded one (is_discarded()) when the text is not valid JSON or nested deeper
/// than any file of a checkpoint. `visit` may take values out while the text is read, so that large
/// ones are never in memory as a tree.
nlohmann::json parse_json(std::string_view text,
                          const nlohmann::json::parser_callback_t& visit = nullptr);

}  // namespace shardweld::formats

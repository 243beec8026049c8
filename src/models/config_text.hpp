// config.json's text as JSON that keeps its order.
// Knows JSON; knows no field.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace shardweld::models {

/// Error(corrupt), beginning with `origin`, for what is not a JSON object, is larger than 64 MB,
/// nested deeper than 64 levels or has so many fields that reading them would take long.
nlohmann::ordered_json parse_config_text(const std::string& text, const std::string& origin);

}  // namespace shardweld::models

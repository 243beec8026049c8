#include "config_text.hpp"

#include <cstddef>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/json_limits.hpp"
#include "shardweld/core/python_json.hpp"

namespace shardweld::models {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostConfigBytes = 64'000'000;

/// "line 3, column 7" of a byte position.
std::string place_of(const std::string& text, std::size_t at) {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < at && i < text.size(); ++i) {
        line += text[i] == '\n' ? 1U : 0U;
        column = text[i] == '\n' ? 1 : column + 1;
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace

nlohmann::ordered_json parse_config_text(const std::string& text, const std::string& origin) {
    if (text.size() > kMostConfigBytes) {
        throw Error(ErrorCode::corrupt, origin + " is larger than 64 MB");
    }
    if (const auto at = too_deep_at(text)) {
        throw Error(ErrorCode::corrupt, origin + " is nested deeper than " +
                                            std::to_string(kDeepestJson) + " levels at " +
                                            place_of(text, *at));
    }
    if (const auto at = too_wide_at(text)) {
        throw Error(ErrorCode::corrupt, origin + " has too many fields at " + place_of(text, *at));
    }
    ordered_json root;
    try {
        root = ordered_json::parse(without_nonfinite(text));
    } catch (const ordered_json::parse_error& error) {
        throw Error(ErrorCode::corrupt,
                    origin + " is no valid JSON at " + place_of(text, error.byte - 1));
    } catch (const ordered_json::exception& error) {
        throw Error(ErrorCode::corrupt, origin + " is no valid JSON: " + error.what());
    }
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, origin + " is no JSON object");
    }
    return root;
}

}  // namespace shardweld::models

#include "config_text.hpp"

#include <cstddef>
#include <optional>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/json.hpp"
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

std::string fault_text(const std::string& text, const JsonFault& fault) {
    const std::string at = " at " + place_of(text, fault.at);
    switch (fault.kind) {
        case JsonFault::Kind::deep:
            return "is nested deeper than " + std::to_string(kDeepestJson) + " levels" + at;
        case JsonFault::Kind::wide:
            return "has too many fields" + at;
        case JsonFault::Kind::syntax:
            return "is not valid JSON" + at;
        case JsonFault::Kind::number:
            break;
    }
    return "is not valid JSON: " + fault.what;
}

}  // namespace

nlohmann::ordered_json parse_config_text(const std::string& text, const std::string& origin) {
    if (text.size() > kMostConfigBytes) {
        throw Error(ErrorCode::corrupt, origin + " is larger than 64 MB");
    }
    std::optional<JsonFault> fault;
    auto root = parse_json<ordered_json>(without_nonfinite(text), &fault);
    if (fault) {
        throw Error(ErrorCode::corrupt, origin + " " + fault_text(text, *fault));
    }
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, origin + " is not a JSON object");
    }
    return root;
}

}  // namespace shardweld::models

#include "json_text.hpp"

#include "shardweld/core/json.hpp"

namespace shardweld::formats {

nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& visit) {
    return shardweld::parse_json<nlohmann::json>(text, nullptr, visit);
}

}  // namespace shardweld::formats

#include "json_text.hpp"

#include "shardweld/core/json_limits.hpp"

namespace shardweld::formats {

nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& visit) {
    return too_deep_at(text) ? nlohmann::json(nlohmann::json::value_t::discarded)
                             : nlohmann::json::parse(text, visit, false);
}

}  // namespace shardweld::formats

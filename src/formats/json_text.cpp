#include "json_text.hpp"

#include "shardweld/core/json_limits.hpp"

namespace shardweld::formats {

nlohmann::json parse_json(std::string_view text) {
    return too_deep_at(text) ? nlohmann::json(nlohmann::json::value_t::discarded)
                             : nlohmann::json::parse(text, nullptr, false);
}

}  // namespace shardweld::formats

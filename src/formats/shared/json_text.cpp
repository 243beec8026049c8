#include "json_text.hpp"

#include "core/json.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr Bytes kLargestConfig = kMiB;

}  // namespace

nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& visit) {
    return shardweld::parse_json<nlohmann::json>(text, nullptr, visit);
}

bool is_run_config(const fs::path& file) {
    try {
        const auto root = parse_json(io::read_text(file, kLargestConfig));
        return root.is_object() && root.contains("model") && root["model"].is_object() &&
               !root.contains("model_type") && !root.contains("architectures");
    } catch (const Error&) {
        return false;
    }
}

}  // namespace shardweld::formats

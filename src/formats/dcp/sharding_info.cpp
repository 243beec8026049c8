#include "sharding_info.hpp"

#include "core/text.hpp"
#include "formats/shared/json_text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::dcp {

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorCode::corrupt, std::string(kShardingInfo) + ": " + what);
}

std::vector<Index> offsets_of(const std::string& name, const Json& entry) {
    const std::string what = "tensor " + printable(name) + " has no list of saved_offsets";
    const auto list = entry.is_object() ? entry.find("saved_offsets") : entry.end();
    if (!entry.is_object() || list == entry.end() || !list->is_array()) {
        refuse(what);
    }
    std::vector<Index> offsets;
    for (const Json& value : *list) {
        if (!value.is_number_unsigned()) {
            refuse(what + " from 0");
        }
        offsets.push_back(to_index(value.get<Bytes>(), "saved_offsets"));
    }
    return offsets;
}

}  // namespace

ShardOffsets parse_sharding_info(const std::string& json) {
    const auto root = parse_json(json);
    if (!root.is_object()) {
        refuse("it is not a JSON object");
    }
    ShardOffsets offsets;
    for (const auto& [name, entry] : root.items()) {
        offsets.emplace(name, offsets_of(name, entry));
    }
    return offsets;
}

}  // namespace shardweld::formats::dcp

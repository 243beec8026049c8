#include "weight_index.hpp"

#include <string_view>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"

#include "../report/json_parts.hpp"

namespace shardweld::app {

using Json = nlohmann::json;

namespace {

constexpr Bytes kLongestIndex = Bytes{256} << 20U;

}  // namespace

WeightIndex read_weight_index(const std::filesystem::path& path) {
    const auto root = parse_json(io::read_text(path, kLongestIndex));
    const auto map = root.is_object() ? root.find("weight_map") : root.end();
    if (!root.is_object() || map == root.end() || !map->is_object()) {
        throw Error(ErrorCode::corrupt,
                    std::string(kWeightIndexName) + " is no JSON object with weight_map");
    }
    WeightIndex index;
    for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string()) {
            throw Error(ErrorCode::corrupt, std::string(kWeightIndexName) + " gives the tensor " +
                                                printable(tensor) + " no file name");
        }
        index.file_of[tensor] = file.get<std::string>();
    }
    const auto total = root.value(Json::json_pointer("/metadata/total_size"), Json());
    if (total.is_number_unsigned()) {
        index.total_size = total.get<Bytes>();
    }
    return index;
}

bool is_plain_name(const std::string& name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

}  // namespace shardweld::app

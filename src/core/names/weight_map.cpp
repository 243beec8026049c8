#include "weight_map.hpp"

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "names.hpp"

namespace shardweld {

namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

[[noreturn]] void refuse_map(const std::string& origin, const std::string& what) {
    throw Error(ErrorCode::corrupt, origin + " " + what);
}

// Takes the entries of `weight_map` out of the index while it is parsed.
class WeightMapReader {
  public:
    explicit WeightMapReader(const std::string& origin) : origin_(origin) {}

    // A parser_callback_t: false for the names of tensors, which then are not kept.
    bool hear(int depth, Event event, const Json& value) {
        if (depth == 1 && event == Event::key) {
            is_map_ = value == "weight_map";
            if (is_map_) {
                map_ = {};
                numbers_.clear();
            }
        }
        if (depth != 2 || !is_map_) {
            return true;
        }
        if (event == Event::key) {
            tensor_ = value.get_ref<const std::string&>();
            return false;
        }
        if (!value.is_string()) {
            refuse_map(origin_, "gives the tensor " + printable(tensor_) + " no file name");
        }
        map_.file_of.insert_or_assign(tensor_, number_of(value.get_ref<const std::string&>()));
        return true;
    }

    WeightMap take() { return std::move(map_); }

  private:
    Index number_of(const std::string& file) {
        const auto next = std::ssize(map_.files);
        const auto [at, is_new] = numbers_.try_emplace(file, next);
        if (is_new) {
            if (!leads_below(file)) {
                refuse_map(origin_,
                           "names the file " + printable(file) + ", which leaves the directory");
            }
            map_.files.push_back(file);
        }
        return at->second;
    }

    const std::string& origin_;
    WeightMap map_;
    std::map<std::string, Index> numbers_;
    std::string tensor_;
    bool is_map_ = false;
};

std::optional<Bytes> total_size_in(const Json& root) {
    const auto metadata = root.find("metadata");
    if (metadata == root.end() || !metadata->is_object()) {
        return std::nullopt;
    }
    const auto total = metadata->find("total_size");
    return total != metadata->end() && total->is_number_unsigned()
               ? std::optional(total->get<Bytes>())
               : std::nullopt;
}

}  // namespace

WeightMap parse_weight_map(const std::string& text, const std::string& origin) {
    WeightMapReader reader(origin);
    const auto root = parse_json<Json>(text, nullptr, [&](int depth, Event event, Json& value) {
        return reader.hear(depth, event, value);
    });
    WeightMap map = reader.take();
    if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object() ||
        map.file_of.empty()) {
        refuse_map(origin, "is not a JSON object with a weight_map of tensors");
    }
    map.total_size = total_size_in(root);
    map.has_metadata = root.contains("metadata") && root["metadata"].is_object();
    return map;
}

}  // namespace shardweld

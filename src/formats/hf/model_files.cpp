#include "model_files.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"

#include "../json_text.hpp"

namespace shardweld::formats::hf {

namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

constexpr Bytes kLongestIndex = Bytes{256} << 20U;

// The two containers, in the order in which loaders try them.
struct Kind {
    std::string_view stem;
    std::string_view suffix;
};
constexpr std::array<Kind, 2> kKinds = {{{"model", ".safetensors"}, {"pytorch_model", ".bin"}}};

[[noreturn]] void refuse(const fs::path& index, const std::string& what) {
    throw Error(ErrorCode::corrupt, index.string() + ": " + what);
}

void check_path(const fs::path& index, const std::string& file) {
    const auto parts = split(file, '/');
    const bool is_plain = std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
        return !part.empty() && part != "." && part != "..";
    });
    if (!is_plain || file.find('\0') != std::string::npos) {
        refuse(index, "file " + printable(file) + " leaves the directory");
    }
}

// Takes the entries of `weight_map` out of the index while it is parsed.
class WeightMapReader {
  public:
    explicit WeightMapReader(const fs::path& index) : index_(index) {}

    // A parser_callback_t: false for the names of tensors, which then are not kept.
    bool hear(int depth, Event event, const Json& value) {
        if (depth == 1 && event == Event::key) {
            is_map_ = value == "weight_map";
            if (is_map_) {
                map_ = {};  // of two the last one counts
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
            refuse(index_, "tensor " + printable(tensor_) + " is given no file name");
        }
        map_.file_of.insert_or_assign(tensor_, number_of(value.get_ref<const std::string&>()));
        return true;
    }

    WeightMap take() { return std::move(map_); }

  private:
    Index number_of(const std::string& file) {
        const auto next = static_cast<Index>(map_.files.size());
        const auto [at, is_new] = numbers_.try_emplace(file, next);
        if (is_new) {
            check_path(index_, file);
            map_.files.push_back(file);
        }
        return at->second;
    }

    const fs::path& index_;
    WeightMap map_;
    std::map<std::string, Index> numbers_;
    std::string tensor_;
    bool is_map_ = false;
};

// model.safetensors, or else all model*.safetensors, or else everything of that kind that is no
// adapter and no shard of a distributed save.
std::vector<std::string> weights_of(const Listing& listing, const Kind& kind) {
    std::vector<std::string> named;
    std::vector<std::string> others;
    for (const std::string& file : listing.files) {
        if (!file.ends_with(kind.suffix) || file.starts_with("adapter_") ||
            file.starts_with("shard-")) {
            continue;
        }
        (file.starts_with(kind.stem) ? named : others).push_back(file);
    }
    // A lone .bin of another name may be anything.
    return !named.empty() || kind.suffix == ".bin" ? named : others;
}

[[noreturn]] void refuse_two(const fs::path& directory, const std::string& a,
                             const std::string& b) {
    throw Error(ErrorCode::mismatch, directory.string() + " holds two models, " + printable(a) +
                                         " and " + printable(b) +
                                         "; loaders differ in which they take: remove one");
}

ModelFiles indexed(const fs::path& directory, const std::string& index) {
    ModelFiles model{index, read_weight_map(directory / index).files};
    std::sort(model.weights.begin(), model.weights.end(), natural_less);
    return model;
}

std::optional<ModelFiles> find_kind(const fs::path& directory, const Listing& listing,
                                    const Kind& kind) {
    const std::string single = std::string(kind.stem) + std::string(kind.suffix);
    const std::string index = single + ".index.json";
    if (listing.has_file(index)) {
        ModelFiles model = indexed(directory, index);
        if (listing.has_file(single) && model.weights != std::vector{single}) {
            refuse_two(directory, single, index);
        }
        return model;
    }
    auto weights = weights_of(listing, kind);
    if (weights.empty()) {
        return std::nullopt;
    }
    const auto other = std::find_if(weights.begin(), weights.end(),
                                    [&](const std::string& file) { return file != single; });
    if (listing.has_file(single) && other != weights.end()) {
        refuse_two(directory, single, *other);
    }
    return ModelFiles{"", std::move(weights)};
}

}  // namespace

WeightMap read_weight_map(const fs::path& index) {
    WeightMapReader reader(index);
    const auto root = parse_json(
        io::read_text(index, kLongestIndex),
        [&](int depth, Event event, Json& value) { return reader.hear(depth, event, value); });
    WeightMap map = reader.take();
    if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object() ||
        map.file_of.empty()) {
        refuse(index, "is not a JSON object with a `weight_map` of tensors");
    }
    return map;
}

std::optional<ModelFiles> find_model_files(const fs::path& directory, const Listing& listing) {
    for (const Kind& kind : kKinds) {
        if (auto model = find_kind(directory, listing, kind)) {
            return model;
        }
    }
    return std::nullopt;
}

}  // namespace shardweld::formats::hf

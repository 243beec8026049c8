#include "verl.hpp"

#include <algorithm>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"

#include "json_text.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kContentsFile = "ckpt_contents.json";
constexpr Bytes kLargestContents = 1U << 20U;

using io::is_file;

// A path from a file must name something below the directory it is in.
bool stays_inside(const fs::path& path) {
    return !path.empty() && path.is_relative() &&
           std::none_of(path.begin(), path.end(),
                        [](const fs::path& part) { return part == ".."; });
}

// contents.model.path of ckpt_contents.json.
std::string model_path_in(const fs::path& file) {
    const auto root = parse_json(io::read_text(file, kLargestContents));
    if (!root.is_object() || !root.contains("contents") || !root["contents"].is_object()) {
        throw Error(ErrorCode::corrupt, file.string() + " is not a JSON object with `contents`");
    }
    const auto& contents = root["contents"];
    if (!contents.contains("model") || contents["model"].is_null()) {
        throw Error(ErrorCode::not_found,
                    file.string() + " lists no model: this save holds no weights to merge");
    }
    const auto& model = contents["model"];
    if (!model.is_object() || !model.contains("path") || !model["path"].is_string()) {
        throw Error(ErrorCode::corrupt, file.string() + " gives no path for the model");
    }
    return model["path"].get<std::string>();
}

fs::path listed_model(const fs::path& directory) {
    const fs::path file = directory / kContentsFile;
    const fs::path path = model_path_in(file);
    if (!stays_inside(path)) {
        throw Error(ErrorCode::corrupt, file.string() + " gives the model's path as " +
                                            printable(path.string()) +
                                            ", which leaves the checkpoint");
    }
    if (!io::is_directory(directory / path)) {
        throw Error(ErrorCode::not_found, file.string() + " gives the model's path as " +
                                              printable(path.string()) +
                                              ", but there is no such directory");
    }
    return (directory / path).lexically_normal();
}

// The directory of the shards and the two above it, nearest first: model/dist_ckpt lies two below
// the role's.
std::vector<fs::path> surroundings(const fs::path& directory) {
    return {directory, directory.parent_path(), directory.parent_path().parent_path()};
}

}  // namespace

std::optional<fs::path> role_directory(const fs::path& directory, const Listing& listing,
                                       const std::string& role) {
    const bool actor = listing.has_directory("actor");
    const bool critic = listing.has_directory("critic");
    if (!actor && !critic) {
        return std::nullopt;
    }
    if (!role.empty() && !listing.has_directory(role)) {
        throw Error(ErrorCode::not_found, "--role " + role + " is not in " + directory.string() +
                                              "; found: " + (actor ? "actor" : "critic"));
    }
    if (role.empty() && actor && critic) {
        throw Error(ErrorCode::usage, directory.string() +
                                          " holds actor and critic; choose one with --role actor "
                                          "or --role critic");
    }
    return directory / (role.empty() ? (actor ? "actor" : "critic") : role);
}

std::optional<fs::path> model_directory(const fs::path& directory, const Listing& listing) {
    if (listing.has_file(kContentsFile)) {
        return listed_model(directory);
    }
    if (listing.has_directory("model") && io::is_directory(directory / "model" / "dist_ckpt")) {
        return directory / "model" / "dist_ckpt";
    }
    for (const char* name : {"dist_ckpt", "model"}) {
        if (listing.has_directory(name)) {
            return directory / name;
        }
    }
    return std::nullopt;
}

void add_companions(Location& location) {
    for (const fs::path& directory : surroundings(location.directory)) {
        if (!location.hf_directory && is_file(directory / "huggingface" / "config.json")) {
            location.hf_directory = directory / "huggingface";
        }
        if (!location.claims_file && is_file(directory / "transformer_config.json")) {
            location.claims_file = directory / "transformer_config.json";
        }
        if (io::is_directory(directory / "adapter_checkpoint")) {
            location.notes.push_back("adapters are kept apart in " +
                                     (directory / "adapter_checkpoint").string() +
                                     " and are not merged");
        }
    }
    const fs::path& shards = location.directory;
    const fs::path role = shards.parent_path().parent_path();
    if (shards.filename() == "dist_ckpt" && shards.parent_path().filename() == "model" &&
        !is_file(role / kContentsFile)) {
        location.notes.push_back((role / kContentsFile).string() +
                                 " is missing: it is written last, so the save may be incomplete");
    }
}

}  // namespace shardweld::formats

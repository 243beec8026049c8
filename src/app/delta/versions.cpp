#include "versions.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "core/weight_map.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kVersionName = "weight_v";
constexpr std::size_t kDigits = 6;
constexpr Index kMostVersion = 1'000'000'000'000;
constexpr const char* kDeltaIndex = "model.safetensors.index.json";
constexpr const char* kChecksums = "xxh3-128";

std::optional<Index> version_in(const std::string& name) {
    if (!name.starts_with(kVersionName) || name.size() < kVersionName.size() + kDigits) {
        return std::nullopt;
    }
    const std::optional<Index> version = parse_index(name.substr(kVersionName.size()));
    if (!version || version_name(*version) != name) {
        return std::nullopt;
    }
    if (*version > kMostVersion) {
        throw Error(ErrorCode::unsupported, name + " leaves no number to the versions behind it",
                    "name another directory for the versions");
    }
    return version;
}

std::vector<Index> versions_in(const fs::path& directory) {
    std::vector<Index> versions;
    if (io::kind_at(directory) == io::FileKind::none) {
        return versions;
    }
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        if (const auto version = version_in(entry.path().filename().string())) {
            versions.push_back(*version);
        }
    }
    std::ranges::sort(versions);
    return versions;
}

/// Whether an index lists any tensor. Error(unsupported) unless its checksums are those that are
/// written here.
bool lists_tensors(const std::string& text, const fs::path& index) {
    const auto json = parse_json<nlohmann::json>(text);
    const bool is_known = json.is_object() && json.contains("metadata") &&
                          json["metadata"].is_object() &&
                          json["metadata"].value("checksum_format", nlohmann::json()) == kChecksums;
    if (!is_known) {
        throw Error(ErrorCode::unsupported,
                    index.string() + " does not say that its checksums are " + kChecksums,
                    "name another directory for these versions");
    }
    return json.value("weight_map", nlohmann::json()) != nlohmann::json::object();
}

/// Takes the digests of one version over those of earlier ones.
void read_version(const fs::path& version, History& history) {
    const fs::path index = version / kDeltaIndex;
    const std::string text = io::read_text(index, kLongestWeightMap);
    if (!lists_tensors(text, index)) {
        return;
    }
    for (const std::string& file : parse_weight_map(text, index.string()).files) {
        const auto header = formats::read_safetensors(io::InputFile::open(version / file));
        for (const auto& [name, tensor] : header.tensors) {
            if (const auto sum = header.metadata.find(name); sum != header.metadata.end()) {
                history.digest_of[name] = sum->second;
            }
        }
    }
}

Error another_base(const History& history, const ModelPair& pair, const fs::path& directory) {
    return {ErrorCode::mismatch,
            pair.old_directory.string() + " is not the model that " +
                (directory / version_name(history.last)).string() + " leads to",
            "give the model of that version as PREV, or begin anew in another DIR"};
}

std::string index_text(Index version, const ordered_json& weight_map) {
    const ordered_json json = {{"metadata",
                                {{"version", version_digits(version)},
                                 {"base_version", version_digits(version - 1)},
                                 {"delta_encoding", "xor"},
                                 {"compression_format", "zstd"},
                                 {"checksum_format", kChecksums}}},
                               {"weight_map", weight_map}};
    return json.dump(2) + "\n";
}

std::string delta_file_name(std::size_t number, std::size_t n_files) {
    constexpr std::size_t kFileDigits = 5;
    return "model-" + zero_filled(std::to_string(number), kFileDigits) + "-of-" +
           zero_filled(std::to_string(n_files), kFileDigits) + ".safetensors";
}

}  // namespace

std::string version_digits(Index version) {
    return zero_filled(std::to_string(version), kDigits);
}

std::string version_name(Index version) {
    return std::string(kVersionName) + version_digits(version);
}

std::string part_name(std::size_t part) {
    return "part-" + std::to_string(part);
}

Index last_version(const fs::path& directory) {
    const std::vector<Index> versions = versions_in(directory);
    return versions.empty() ? 0 : versions.back();
}

History read_history(const fs::path& directory) {
    History history;
    for (const Index version : versions_in(directory)) {
        read_version(directory / version_name(version), history);
        history.last = version;
    }
    return history;
}

std::size_t require_base(const History& history, const std::vector<DeltaFile>& files,
                         const ModelPair& pair, const fs::path& directory) {
    std::map<std::string, std::string> left = history.digest_of;
    for (const DeltaFile& file : files) {
        for (const DeltaTensor& tensor : file.tensors) {
            const auto listed = left.find(tensor.name);
            if (listed == left.end()) {
                continue;
            }
            if (listed->second != tensor.old_digest) {
                throw another_base(history, pair, directory)
                    .add_context("tensor " + printable(tensor.name))
                    .add_found(tensor.old_digest, listed->second);
            }
            left.erase(listed);
        }
    }
    if (!left.empty()) {
        throw another_base(history, pair, directory)
            .add_context("tensor " + printable(left.begin()->first))
            .add_found("no such tensor", left.begin()->second);
    }
    return history.digest_of.size();
}

Bytes complete_version(const fs::path& directory, Index version,
                       const std::vector<DeltaFile>& files) {
    const auto n_files = static_cast<std::size_t>(
        std::ranges::count_if(files, [](const DeltaFile& file) { return file.size > 0; }));
    // Sorted by name, and not an ordered_json, which looks each new key up in all earlier ones.
    nlohmann::json weight_map = nlohmann::json::object();
    Bytes size = 0;
    std::size_t number = 0;
    for (std::size_t part = 0; part < files.size(); ++part) {
        if (files[part].size == 0) {
            continue;
        }
        const std::string name = delta_file_name(number++, n_files);
        fs::rename(directory / part_name(part), directory / name);
        size += files[part].size;
        for (const DeltaTensor& tensor : files[part].tensors) {
            if (tensor.stored > 0) {
                weight_map[tensor.name] = name;
            }
        }
    }
    const std::string text = index_text(version, weight_map);
    io::write_text(directory / kDeltaIndex, text, true);
    io::sync_directory(directory);
    return size + text.size();
}

}  // namespace shardweld::app

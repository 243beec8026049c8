#include "reference_model.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/in_context.hpp"
#include "core/json.hpp"
#include "core/names.hpp"
#include "core/text.hpp"
#include "core/weight_map.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/shared/directory_listing.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "models/config.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using outputs::ReferenceFile;
using outputs::ReferenceLayout;
using outputs::ReferenceTensor;

constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kIndexPart = ".safetensors.index";
constexpr std::string_view kUsualIndex = "model.safetensors.index.json";
constexpr Bytes kMostHeaders = Bytes{1} << 30U;  // of all files together
constexpr Bytes kLargestJson = Bytes{64} << 20U;
constexpr const char* kOtherReference =
    "give --layout_like a complete model in safetensors, as it is on the Hub";

/// The index that loaders take: the usual one, else the only one.
std::optional<std::string> index_in(const formats::Listing& listing) {
    std::vector<std::string> found;
    std::ranges::copy_if(listing.files, std::back_inserter(found), [](const std::string& file) {
        return file.ends_with(".json") && file.find(kIndexPart) != std::string::npos;
    });
    if (std::ranges::count(found, kUsualIndex) > 0) {
        return std::string(kUsualIndex);
    }
    if (found.size() > 1) {
        throw Error(ErrorCode::mismatch,
                    "has two indices, " + printable(found[0]) + " and " + printable(found[1]),
                    "remove the one that is not the model's");
    }
    return found.empty() ? std::nullopt : std::optional(found.front());
}

/// All weights where no index tells them; an adapter's are none of the model's.
std::vector<std::string> weights_in(const formats::Listing& listing) {
    std::vector<std::string> weights;
    std::ranges::copy_if(listing.files, std::back_inserter(weights), [](const std::string& file) {
        return file.ends_with(kEnding) && !file.starts_with("adapter_") && !file.starts_with('.');
    });
    if (weights.empty()) {
        throw Error(ErrorCode::unsupported, "holds no weights in safetensors", kOtherReference);
    }
    formats::require_whole_sets(weights);
    return weights;
}

/// They are written by the same names into one directory.
void require_plain(const std::string& file, const formats::Listing& listing) {
    if (file.find('/') != std::string::npos || file.starts_with('.') || !file.ends_with(kEnding) ||
        !is_plain_name(file)) {
        throw Error(ErrorCode::unsupported,
                    "its index names " + printable(file) +
                        ", which is no safetensors file of this directory",
                    kOtherReference);
    }
    if (!listing.has_file(file)) {
        throw Error(ErrorCode::not_found,
                    "its index names " + printable(file) + ", which is not there",
                    "copy all files of the reference");
    }
}

std::string header_bytes(const io::InputFile& file) {
    Bytes length = 0;
    std::array<std::byte, sizeof length> raw{};
    file.read_at(0, raw);
    std::memcpy(&length, raw.data(), raw.size());
    file.require_unchanged();  // the length was checked when the header was parsed
    std::string header(to_size(raw.size() + length, "the safetensors header"), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(header)));
    file.require_unchanged();
    return header;
}

ReferenceFile read_file(const fs::path& directory, const std::string& name) {
    const auto input = io::InputFile::open(directory / name);
    const formats::SafetensorsHeader read = formats::read_safetensors(input);
    std::vector<std::pair<std::pair<Bytes, Bytes>, ReferenceTensor>> tensors;
    for (const auto& [tensor, stored] : read.tensors) {
        tensors.push_back(
            {{stored.storage_offset, stored.storage_bytes}, {tensor, stored.dtype, stored.shape}});
    }
    std::ranges::stable_sort(tensors, {}, [](const auto& one) { return one.first; });
    ReferenceFile file{name, header_bytes(input), {}};
    for (auto& [place, tensor] : tensors) {
        file.tensors.push_back(std::move(tensor));
    }
    return file;
}

std::vector<ReferenceFile> read_files(const fs::path& directory,
                                      const std::vector<std::string>& names) {
    std::vector<ReferenceFile> files;
    Bytes bytes = 0;
    for (const std::string& name : names) {
        files.push_back(in_context("file ", name, [&] { return read_file(directory, name); }));
        bytes += files.back().header.size();
        if (bytes > kMostHeaders) {
            throw Error(ErrorCode::unsupported,
                        "has headers of more than " + human_bytes(kMostHeaders), kOtherReference);
        }
    }
    return files;
}

/// A tensor that is in several files counts in the one that the index names. The headers of the
/// others name more than these files will hold, and are not kept.
void settle_places(const WeightMap& map, std::vector<ReferenceFile>& files) {
    std::map<std::string, std::string> of_name;
    for (const auto& [name, file] : map.file_of) {
        of_name.emplace(name, map.file(file));
    }
    std::map<std::string, std::string> found;
    for (ReferenceFile& file : files) {
        const auto erased = std::erase_if(file.tensors, [&](const ReferenceTensor& tensor) {
            const auto told = of_name.find(tensor.name);
            return told != of_name.end() && told->second != file.name;
        });
        file.header = erased > 0 ? "" : file.header;
        for (const ReferenceTensor& tensor : file.tensors) {
            const auto [first, is_new] = found.emplace(tensor.name, file.name);
            if (!is_new) {
                throw Error(ErrorCode::mismatch,
                            "tensor " + printable(tensor.name) + " is in " + first->second +
                                " and in " + file.name,
                            "keep the files of one model only");
            }
        }
    }
    for (const auto& [name, file] : of_name) {
        if (!found.contains(name)) {
            throw Error(ErrorCode::mismatch,
                        "its index says that tensor " + printable(name) + " is in " + file +
                            ", which does not hold it",
                        "copy index and files of one model");
        }
    }
}

ReferenceLayout read_layout(const fs::path& directory) {
    const formats::Listing listing = formats::list_directory(directory);
    ReferenceLayout layout{directory.string(), {}, {}};
    WeightMap map;
    if (const auto index = index_in(listing)) {
        const fs::path path = directory / *index;
        layout.index = {*index, io::read_text(path, kLongestWeightMap)};
        map = parse_weight_map(layout.index->text, path.string());
    }
    std::vector<std::string> names = layout.index ? map.files : weights_in(listing);
    std::ranges::for_each(names, [&](const std::string& name) { require_plain(name, listing); });
    std::ranges::sort(names, natural_less);
    layout.files = read_files(directory, names);
    settle_places(map, layout.files);
    return layout;
}

std::optional<std::string> small_text(const publish::Asset& asset) {
    if (asset.text) {
        return asset.text;
    }
    return asset.file && asset.file->size() <= kLargestJson
               ? std::optional(io::text_of(*asset.file, kLargestJson))
               : std::nullopt;
}

}  // namespace

ReferenceModel read_reference_model(const fs::path& directory) {
    return in_context("reference ", directory.string(), [&] {
        ReferenceModel model{read_layout(directory), ""};
        const fs::path config = directory / "config.json";
        if (io::is_file(config)) {
            model.config = io::read_text(config, models::kMaxConfig);
        }
        return model;
    });
}

bool is_same_json(const std::string& a, const std::string& b) {
    if (a == b) {
        return true;
    }
    const auto first = parse_json<nlohmann::json>(a);
    const auto second = parse_json<nlohmann::json>(b);
    return !first.is_discarded() && !second.is_discarded() && first == second;
}

void keep_same_assets(const fs::path& directory, std::vector<publish::Asset>& assets) {
    for (publish::Asset& theirs : publish::collect_assets(directory)) {
        const auto own = std::ranges::find(assets, theirs.name, &publish::Asset::name);
        if (own == assets.end() || !theirs.name.ends_with(".json")) {
            continue;
        }
        const auto text = small_text(*own);
        const auto their_text = small_text(theirs);
        if (text && their_text && is_same_json(*text, *their_text)) {
            *own = std::move(theirs);
        }
    }
}

}  // namespace shardweld::app

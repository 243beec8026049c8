// ColossalAI's saves: whole tensors under their hub names, in shards numbered by pipeline stage.
// Source: colossalai 0.5.0 colossalai/checkpoint_io/{general,hybrid_parallel,gemini}*.py.

#include <algorithm>
#include <set>
#include <utility>

#include "core/names/weight_map.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/hf/hf.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "shardweld/error.hpp"

#include "shard_names.hpp"

namespace shardweld::formats::colossalai {

namespace {

constexpr const char* kCutShort =
    "the save was cut short, or not copied as a whole: copy it again or take an earlier one";

std::vector<StagedName> names_in(const std::vector<std::string>& files,
                                 std::optional<StagedName> (*parse)(std::string_view)) {
    std::vector<StagedName> names;
    for (const std::string& file : files) {
        if (auto name = parse(file)) {
            names.push_back(std::move(*name));
        }
    }
    return names;
}

/// The file of an unsharded model of the shards' kind: its index has this name in front.
std::string model_of(const fs::path& directory, const std::vector<StagedName>& shards) {
    const auto& first = shards.front().model;
    auto* const other =
        find_where(shards, [&](const StagedName& shard) { return shard.model != first; });
    if (other != nullptr) {
        throw Error(ErrorCode::mismatch,
                    directory.string() + " holds shards of two models, of " + first + " and of " +
                        other->model,
                    "remove those of one");
    }
    return first;
}

/// Each stage writes its index behind its shards: one that has none is not complete.
void require_indices(const std::vector<StagedName>& shards, const std::set<std::string>& indices,
                     const std::vector<StagedName>& indexed) {
    std::set<std::string> missing;
    std::set<Index> numbers;
    for (const auto* const names : {&shards, &indexed}) {
        for (const StagedName& name : *names) {
            const std::string index = stage_index_name(name);
            numbers.insert(name.number.value_or(0));
            if (!indices.contains(index)) {
                missing.insert(std::string(kStageIndices) + "/" + index);
            }
        }
    }
    if (!missing.empty()) {
        throw Error(ErrorCode::not_found,
                    "indices of pipeline stages are missing: " +
                        name_list({missing.begin(), missing.end()}),
                    kCutShort);
    }
    for (Index next = *numbers.begin() == 0 ? 0 : 1; const Index number : numbers) {
        if (number != next++) {
            throw Error(ErrorCode::not_found,
                        "files of pipeline stage " + std::to_string(next - 1) + " are missing",
                        kCutShort);
        }
    }
}

/// The indices of stages that were not made one, and the shards they name.
std::vector<std::string> files_of_stages(const fs::path& directory,
                                         const std::vector<StagedName>& shards) {
    const Listing listing = try_list_directory(directory / kStageIndices);
    std::vector<std::string> indices;
    std::set<std::string> files;
    for (const std::string& file : listing.files) {
        if (parse_stage_index(file)) {
            indices.push_back(std::string(kStageIndices) + "/" + file);
            for (std::string& shard : hf::read_weight_map(directory / indices.back()).files) {
                files.insert(std::move(shard));
            }
        }
    }
    require_indices(shards, {listing.files.begin(), listing.files.end()},
                    names_in(listing.files, parse_stage_index));
    std::vector<std::string> all(files.begin(), files.end());
    std::ranges::sort(all, natural_less);
    append_all(all, indices);
    return all;
}

std::vector<std::string> files_of(const fs::path& directory, const Listing& listing,
                                  const std::vector<StagedName>& shards,
                                  std::vector<std::string>& notes) {
    if (shards.empty()) {
        throw Error(ErrorCode::not_found,
                    directory.string() + " has " + std::string(kStageIndices) + " but no shards",
                    kCutShort);
    }
    const std::string index = model_of(directory, shards) + ".index.json";
    if (listing.has_file(index)) {
        std::vector<std::string> files = hf::read_weight_map(directory / index).files;
        std::ranges::sort(files, natural_less);
        files.push_back(index);
        return files;
    }
    if (!listing.has_directory(kStageIndices)) {
        throw Error(ErrorCode::not_found,
                    directory.string() + " has shards but no " + index + ", which is written last",
                    kCutShort);
    }
    notes.push_back("the save was cut short before it wrote " + index +
                    ": the indices of its pipeline stages are used");
    return files_of_stages(directory, shards);
}

bool is_sharded(const Listing& listing) {
    return listing.has_directory(kStageIndices) ||
           std::ranges::any_of(listing.files, [](const std::string& file) {
               return parse_shard(file).has_value();
           });
}

std::optional<Location> probe_sharded(const fs::path& directory, const Listing& listing) {
    const auto shards = names_in(listing.files, parse_shard);
    const bool has_optimizer = std::ranges::any_of(
        listing.files, [](const std::string& file) { return file.starts_with("pytorch_optim"); });
    if (!is_sharded(listing) || (shards.empty() && has_optimizer)) {
        return std::nullopt;
    }
    Location location = begun_at(sharded_format, directory, &listing);
    location.shard_files = files_of(directory, listing, shards, location.notes);
    return location;
}

// Saved under any name; what lies beside other formats' metadata is not the model.
std::vector<std::string> only_file(const Listing& listing) {
    auto files = filter_list(listing.files, [](const std::string& file) {
        return !file.starts_with("pytorch_optim") &&
               (file.ends_with(".bin") || file.ends_with(".pt") || file.ends_with(".pth"));
    });
    const bool is_beside_metadata =
        listing.has_file(".metadata") || listing.has_file("metadata.json");
    return files.size() == 1 && !is_beside_metadata ? files : std::vector<std::string>();
}

std::optional<Location> probe_single(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(single_format, directory, &listing);
    location.shard_files = hf::find_model_files(directory, listing);
    if (location.shard_files.empty()) {
        location.shard_files = only_file(listing);
    }
    return location.shard_files.empty() ? std::nullopt : std::optional(std::move(location));
}

// The last stage may hold a tied embedding once more.
Catalogue join_stages(const Location& location, std::vector<ScanOf<WeightMap>> scans) {
    return hf::join_weights(location, std::move(scans), hf::UnindexedTensors::compared);
}

}  // namespace

/// Sharded saves, with or without pipeline stages.
const Format sharded_format = {
    .name = "colossalai",
    .backend = "colossalai",
    .noun = "ColossalAI checkpoint",
    .probe = probe_sharded,
    .scan = scan_typed<WeightMap, hf::scan_weights_or_index>,
    .combine = combine_typed<WeightMap, join_stages>,
};

/// A save with shard=False, which looks like any model in one file.
const Format single_format = {
    .name = "colossalai file",
    .backend = "colossalai",
    .noun = "ColossalAI checkpoint",
    .explicit_only = true,
    .probe = probe_single,
    .scan = scan_typed<WeightMap, hf::scan_weights_or_index>,
    .combine = combine_typed<WeightMap, join_stages>,
};

}  // namespace shardweld::formats::colossalai

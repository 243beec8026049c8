// Shards of the HuggingFace storage writer: shard-00001-model-00001-of-00002.safetensors...
// Source: torch 2.15 torch/distributed/checkpoint/hf_storage.py.

#include <utility>

#include "core/in_context.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/recognise.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "join_scans.hpp"
#include "model_selection.hpp"

namespace shardweld::formats::dcp {

namespace {

constexpr const char* kMissingHint =
    "compare with the run's directory which shard-* files are missing here; if none is, the save "
    "was cut short: take an earlier one";
constexpr const char* kShardedDirectory = "sharded";
// NeMo Automodel, components/checkpoint/checkpointing.py (save_model).
constexpr const char* kMetadataDirectory = ".hf_metadata";
/// The number of a shard, counted from 1.
std::optional<Index> number_of_shard(std::string_view file) {
    const auto found = match_rule(name_rules().shards, file, hf_shards_format.name);
    return found ? std::optional(found->parts.number("shard")) : std::nullopt;
}

std::vector<std::string> shards_in(const Listing& listing) {
    return filter_list(listing.files,
                       [](const std::string& file) { return number_of_shard(file).has_value(); });
}

const std::string& sharding_info(const SafetensorsHeader& header) {
    auto* const at = find_value(header.metadata, kShardingInfo);
    if (at == nullptr) {
        throw Error(ErrorCode::corrupt,
                    std::string("has no ") + kShardingInfo +
                        " in its metadata: where its tensors belong is not known");
    }
    return *at;
}

Tensor tensor_of(const std::string& name, const StoredTensor& stored,
                 const ShardOffsets& all_offsets) {
    auto* const offsets = find_value(all_offsets, name);
    if (offsets == nullptr || offsets->size() != stored.shape.size()) {
        throw Error(ErrorCode::corrupt,
                    std::string(kShardingInfo) +
                        " does not say where in the whole tensor this part of " + "shape " +
                        shape_text(stored.shape) + " lies");
    }
    Tensor tensor;
    tensor.name = name;
    tensor.stored_as = name;
    tensor.dtype = stored.dtype;
    for (const std::size_t k : indices(stored.shape)) {
        tensor.shape.push_back(checked_add((*offsets)[k], stored.shape[k], "a tensor's shape"));
    }
    volume_of(tensor.shape, "a tensor's shape");
    if (stored.volume() != 0) {
        tensor.pieces.push_back(piece_of(stored, *offsets));
    }
    return tensor;
}

Scan scan_shard(const Location& location, const std::string& file) {
    return scan_input_file(location, file, [&](const io::InputFile& input, Catalogue& out) {
        const SafetensorsHeader header = read_safetensors(input);
        const ShardOffsets offsets = parse_sharding_info(sharding_info(header));
        for (const auto& one : header.tensors) {
            in_context("tensor ", one.first,
                       [&] { out.tensors.push_back(tensor_of(one.first, one.second, offsets)); });
        }
    });
}

// Ranks write those of the model's files that they hold parts of.
void require_all_shards(const std::vector<std::string>& shards) {
    std::set<Index> numbers;
    std::vector<std::string> files_of_model;
    for (const std::string& file : shards) {
        numbers.insert(number_of_shard(file).value_or(0));
        files_of_model.push_back("shard-*" + file.substr(file.find("-model-")));
    }
    require_all_numbers(numbers, 1, "shard ", "");
    require_whole_sets(files_of_model);
}

Location location_of(const fs::path& shards_directory, const fs::path& directory,
                     std::vector<std::string> shards, const Listing& listing) {
    Location location = begun_at(hf_shards_format, directory, &listing);
    location.directory = shards_directory;
    location.shard_files = std::move(shards);
    const fs::path metadata = directory / kMetadataDirectory;
    if (!location.hf_directory && io::is_file(metadata / "config.json")) {
        location.hf_directory = metadata;
    }
    return location;
}

std::optional<Location> probe_shards(const fs::path& directory, const Listing& listing) {
    if (auto shards = shards_in(listing); !shards.empty()) {
        return location_of(directory, directory, std::move(shards), listing);
    }
    auto shards = listing.has_directory(kShardedDirectory)
                      ? shards_in(list_directory(directory / kShardedDirectory))
                      : std::vector<std::string>{};
    if (shards.empty()) {
        return std::nullopt;
    }
    if (auto whole = hf::hf_format.probe(directory, listing)) {
        whole->notes.emplace_back(
            "read the consolidated model; its shards in sharded/ are left aside");
        return whole;
    }
    return location_of(directory / kShardedDirectory, directory, std::move(shards), listing);
}

Catalogue combine_shards(const Location& location, std::vector<Scan> scans) {
    require_all_shards(location.shard_files);
    Catalogue out = join(std::move(scans), Shapes::reached);
    for (const File& file : out.files) {
        out.statements.push_back({file.path, kShardingInfo, {{"file", file.path}}, {}, true});
    }
    select_model(out);
    require_complete(out, kMissingHint);
    out.facts = location.facts;
    out.facts[kShardRanks] = number_of_shard(location.shard_files.back()).value_or(0);
    out.notes.insert(out.notes.begin(), "torch DCP checkpoint of the HuggingFace storage writer, " +
                                            counted(out.files.size(), "shard file"));
    return out;
}

}  // namespace

/// The shards that the HuggingFace storage writer leaves, each of which describes itself.
const Format hf_shards_format = {
    .name = "torch dcp safetensors",
    .backend = "dcp",
    .noun = "torch DCP checkpoint",
    .option = InputOption::prefix,
    .subject = "torch DCP checkpoints",
    .probe = probe_shards,
    .scan = scan_shard,
    .combine = combine_shards,
};

}  // namespace shardweld::formats::dcp

// FSDP checkpoints of a file for each rank: verl's model_world_size_W_rank_R.pt, accelerate's
// pytorch_model_fsdp_0_rankR.bin.
// Sources: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py; accelerate 1.15
// utils/fsdp_utils.py.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/rank_grid.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

#include "join.hpp"
#include "mesh.hpp"
#include "rank_files.hpp"
#include "scan.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr const char* kConfigFile = "fsdp_config.json";
std::string summary(std::string_view noun, const Catalogue& out,
                    const std::vector<MeshDims>& meshes, Index world) {
    std::string text(noun);
    for (const auto& [fact, label] :
         {std::pair("iteration", ", iteration "), std::pair("fsdp_version", ", FSDP version ")}) {
        if (auto* const at = find_value(out.facts, fact)) {
            text += label + std::to_string(*at);
        }
    }
    text += ", world size " + std::to_string(world);
    for (const MeshDims& mesh : meshes) {
        text += ", mesh " + mesh_text(mesh);
    }
    return text;
}

// Ranks among which a plain tensor may be divided, and those of tensor parallelism.
void add_mesh_facts(const Mesh& mesh, Index world, Catalogue& out) {
    out.facts["world"] = world;
    out.facts["fsdp"] = mesh.shape.empty() ? world : 1;
    if (!mesh.shape.empty()) {
        out.facts["mesh_by_hand"] = 1;  // plain tensors are divided as it says
    }
    for (const std::size_t d : indices(mesh.shape)) {
        if (mesh.names[d] == "tp") {
            out.facts["tp"] = mesh.shape[d];
        } else if (!is_replicating(mesh.names[d])) {
            out.facts["fsdp"] *= mesh.shape[d];
        }
    }
}

// The mesh that all ranks are in, where one of those met is it.
void add_mesh(const std::vector<MeshDims>& meshes, Index world, Catalogue& out) {
    for (const MeshDims& dims : meshes) {
        Index n_ranks = 1;
        for (const MeshDim& dim : dims) {
            n_ranks = dim.extent <= world / n_ranks ? n_ranks * dim.extent : world + 1;
        }
        if (!dims.empty() && n_ranks == world) {
            out.mesh = dims;
        }
    }
}

// What to do about a save without the model's rank files, by what else is there.
std::string missing_hint(const fs::path& directory, const Listing& listing) {
    if (is_hf_model(try_list_directory(directory / "huggingface"))) {
        return "there is nothing to merge: the HuggingFace model is complete in " +
               (directory / "huggingface").string();
    }
    const bool has_state = std::ranges::any_of(listing.files, [](const std::string& file) {
        return file.starts_with("optim_world_size_") || file.starts_with("extra_state_world_size_");
    });
    return has_state ? "the run saved training state without the model (save_contents), or the "
                       "model's files were left out: copy them, or take a save that has them"
                     : "copy the rank files, too, or take an earlier save";
}

std::optional<Location> probe_verl(const fs::path& directory, const Listing& listing) {
    std::optional<FsdpConfig> config;
    if (listing.has_file(kConfigFile)) {
        config = read_fsdp_config(directory / kConfigFile);
    }
    Location location = begun_at(fsdp_format, directory);
    location.shard_files = choose_rank_files(listing.files, config);
    if (location.shard_files.empty()) {
        if (!config) {
            return std::nullopt;
        }
        throw Error(ErrorCode::not_found,
                    directory.string() + " has " + kConfigFile + " but no rank file (" +
                        file_name({config->world_size, 0, ""}) + "...)",
                    missing_hint(directory, listing));
    }
    if (!config) {
        location.warnings["world_size_from_names"] =
            "fsdp_config.json is missing: the world size is taken from the names of the rank files";
    }
    if (config && config->version) {
        location.facts["fsdp_version"] = *config->version;
    }
    // Before huggingface/ was introduced, config.json lay beside the rank files.
    if (listing.has_file("config.json") && !listing.has_directory("huggingface")) {
        location.hf_directory = directory;
    }
    return location;
}

std::optional<Location> probe_accelerate(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(accelerate_format, directory, &listing);
    location.shard_files = choose_accelerate_files(listing.files);
    return location.shard_files.empty() ? std::nullopt : std::optional(std::move(location));
}

Catalogue join_ranks(const Location& location, std::vector<RankScan> scans) {
    const auto ranks = ranks_of(location.shard_files);
    const Index world = ranks.front().world;
    Catalogue out;
    out.facts = location.facts;
    add_mesh_facts(location.mesh, world, out);
    auto* const unread =
        find_where(scans, [](const RankScan& scan) { return !scan.own.unread_state.empty(); });
    const std::string unread_state = unread == nullptr ? "" : unread->own.unread_state;
    const auto meshes = scans.front().own.meshes;
    add_mesh(meshes, world, out);
    const auto missing = missing_files(ranks);
    join_files(std::move(scans), missing, out);
    out.notes.insert(out.notes.begin(), summary(format_of(location).noun, out, meshes, world));
    if (!unread_state.empty()) {
        out.notes.push_back(unread_state);
    }
    return out;
}

std::string world_size_of(const Location& location) {
    return "world size " + std::to_string(ranks_of(location.shard_files).front().world);
}

RankGrid ranks_in(const RankFiles& files) {
    // Behind the model's files are those of the optimizer, where they are read.
    const auto models = filter_list(
        files.paths, [](const std::string& path) { return parse_file_name(path).has_value(); });
    const auto ranks = ranks_of(models);
    RankGrid grid(files.mesh.empty() ? MeshDims{{"rank", ranks.front().world}} : files.mesh,
                  RankGrid::GridPlace::missing);
    for (const std::size_t file : indices(ranks)) {
        grid.set_file(static_cast<std::size_t>(ranks[file].rank), file);
    }
    return grid;
}

}  // namespace

/// verl's.
const Format fsdp_format = {
    .name = "verl fsdp",
    .backend = "fsdp",
    .noun = "verl FSDP checkpoint",
    .option = InputOption::mesh,
    .subject = "FSDP checkpoints",
    .holds_weights_only = true,
    .detail_of = world_size_of,
    .ranks = ranks_in,
    .probe = probe_verl,
    .scan = scan_typed<RankContent, scan_rank>,
    .combine = combine_typed<RankContent, join_ranks>,
};

/// As verl's, with other names: LOCAL_STATE_DICT, and SHARDED_STATE_DICT with use_dcp=False.
const Format accelerate_format = {
    .name = "accelerate fsdp",
    .backend = "fsdp",
    .noun = "checkpoint of accelerate's FSDP",
    .option = InputOption::mesh,
    .subject = "FSDP checkpoints",
    .holds_weights_only = true,
    .detail_of = world_size_of,
    .ranks = ranks_in,
    .probe = probe_accelerate,
    .scan = scan_typed<RankContent, scan_rank>,
    .combine = combine_typed<RankContent, join_ranks>,
};

}  // namespace shardweld::formats::fsdp

// FSDP checkpoints of a file for each rank: verl's model_world_size_W_rank_R.pt, accelerate's
// pytorch_model_fsdp_0_rankR.bin.
// Sources: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py; accelerate 1.15
// utils/fsdp_utils.py.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/rank_grid.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

#include "mesh.hpp"
#include "rank_files.hpp"
#include "scan.hpp"

namespace shardweld::formats::fsdp {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

constexpr const char* kMeshHint =
    "if the mesh in the files is wrong, say it by hand: --mesh_dim_names and --mesh_shape";
constexpr AssemblyWords kWords = {
    .other_kind = {ErrorCode::mismatch, "{tensor} is {kind} in {file} but {kind2} in {file2}",
                   kOneSave},
    .other_dtype = {ErrorCode::mismatch, "{tensor} is {dtype} in {file} but {dtype2} in {file2}",
                    kOneSave},
    .other_shape = {ErrorCode::mismatch,
                    "{tensor} is of global shape {shape} in {file} but {shape2} in {file2}",
                    kOneSave},
    .other_placement = {ErrorCode::mismatch,
                        "{tensor} is placed as {placement} in {file} but {placement2} in {file2}",
                        kOneSave},
    .gap = {ErrorCode::mismatch, "{tensor} of shape {shape}: no rank holds the elements {where}",
            kMeshHint},
    .overlap = {ErrorCode::mismatch,
                "{tensor} of shape {shape}: {file} and {file2} hold parts that overlap: {where}",
                kMeshHint},
    .irregular = {ErrorCode::unsupported,
                  "{tensor} of shape {shape}: too many parts that form no grid", kMeshHint},
};

/// The scans of rank files, in the order of ranks, become the tensors, shards, files and ignored
/// rows of `out`. `missing`: names of the rank files that are not there; they are forgiven with a
/// note when the others hold every element. Boxes that several ranks hold are replicas, the lowest
/// rank's comes first. Error(not_found) when a missing file is needed; Error(mismatch) when ranks
/// disagree on a tensor's dtype, shape or kind, one lacks it, or its pieces overlap or leave
/// elements out.
class JoinedRanks {
  public:
    JoinedRanks(const std::vector<std::string>& missing, Catalogue& out)
        : missing_(missing), out_(out), all_(kWords, out) {}

    void add(RankScan of_rank) {
        Catalogue& scan = of_rank.told;
        const std::uint32_t file = all_.take(scan);
        for (Tensor& tensor : scan.tensors) {
            all_.add(std::move(tensor), file);
        }
        for (catalogue::Shard& shard : scan.shards) {
            all_.add({shard.name, shard.dtype, {}, {}}, file, true);
            out_.shards.push_back(std::move(shard));
        }
    }

    void finish() {
        drop_empty_shards();
        const bool is_on_first_only = only_first_holds_plain();
        bool has_global = false;
        for (auto& [name, entry] : all_.tensors) {
            has_global = has_global || !entry.is_shard;
            if (!entry.is_shard) {
                settle(entry);
            } else if (!is_on_first_only) {
                require_everywhere(entry);
            }
        }
        if (!has_global && !missing_.empty()) {
            throw files_missing(missing_text());
        }
        std::erase_if(all_.tensors, [](const auto& named) { return named.second.is_shard; });
        if (is_on_first_only || out_.files.size() + missing_.size() == 1) {
            shards_to_tensors();
        }
        all_.finish();
        add_notes(is_on_first_only && out_.files.size() > 1);
    }

  private:
    [[nodiscard]] std::string path(std::uint32_t file) const {
        return printable(out_.files[file].path);
    }

    // The first file that an entry is not in.
    [[nodiscard]] std::optional<std::uint32_t> first_file_without(const Assembled& entry) const {
        for (std::uint32_t file = 0; file < out_.files.size(); ++file) {
            if (file >= entry.files.size() || entry.files[file] != file) {
                return file;
            }
        }
        return std::nullopt;
    }

    void require_everywhere(const Assembled& entry) const {
        if (const auto file = first_file_without(entry)) {
            throw of_several_saves(printable(entry.tensor.name) + " is in " +
                                   path(entry.files.front()) + " but not in " + path(*file));
        }
    }

    [[nodiscard]] std::string missing_text() const {
        return std::to_string(missing_.size()) + " of " +
               std::to_string(missing_.size() + out_.files.size()) +
               " rank files are missing: " + name_list(missing_);
    }

    // Global tensors: copies numbered, every element there once.
    void settle(Assembled& entry) {
        Tensor& tensor = entry.tensor;
        number_replicas(tensor.pieces);
        const CoverFault fault = find_cover_fault(tensor);
        if (fault.kind == Cover::Kind::gap) {
            if (!missing_.empty()) {
                throw files_missing(missing_text())
                    .add_context("tensor " + printable(tensor.name) + ", elements " + fault.where);
            }
            require_everywhere(entry);
        }
        all_.require_cover(tensor, fault);
        n_incomplete_ += first_file_without(entry) ? 1U : 0U;
    }

    // Empty on all ranks: nothing to join.
    void drop_empty_shards() {
        std::map<std::string_view, Index> volumes;
        for (const catalogue::Shard& shard : out_.shards) {
            Index& most = volumes[shard.name];
            most = std::max(most, volume_of(shard.shape, "a tensor's shape"));
        }
        for (const auto& [name, volume] : volumes) {
            if (volume == 0) {
                all_.tensors.erase(std::string(name));
                all_.ignored().add({printable(name), "empty tensor"}, 1, 0);
            }
        }
        std::erase_if(out_.shards, [&](const catalogue::Shard& shard) {
            return !all_.tensors.contains(shard.name);
        });
    }

    // FSDP1's FULL_STATE_DICT: whole tensors on rank 0, nothing elsewhere.
    [[nodiscard]] bool only_first_holds_plain() const {
        return std::all_of(all_.tensors.begin(), all_.tensors.end(), [](const auto& named) {
            return named.second.is_shard && named.second.files == std::vector<std::uint32_t>{0};
        });
    }

    void shards_to_tensors() {
        for (catalogue::Shard& shard : std::exchange(out_.shards, {})) {
            all_.add({shard.name, shard.dtype, std::move(shard.shape), {shard.piece}}, 0);
        }
    }

    void add_notes(bool is_on_first_only) {
        if (is_on_first_only) {
            out_.notes.emplace_back(
                "only the first rank's file holds tensors: they are taken as "
                "whole");
        }
        if (!missing_.empty()) {
            out_.warnings["replica_absent"] =
                missing_text() + " (not needed: the others hold every element)";
        }
        if (n_incomplete_ > 0) {
            out_.warnings["tensor_not_everywhere"] =
                counted(n_incomplete_, "tensor") + " " + verb_of(n_incomplete_, "is", "are") +
                " not in every rank's file; the others hold all their elements";
        }
    }

    const std::vector<std::string>& missing_;
    Catalogue& out_;
    Assembler all_;
    std::size_t n_incomplete_ = 0;
};

/// Part of a tensor: number of the tensor, bytes and CRC-32 of the storage.
using PartContent = std::tuple<std::size_t, Bytes, std::uint32_t>;

// Ones and zeros fill many tensors, and so does a constant; contents of one size that differ so
// often come from training.
constexpr std::size_t kLeastContents = 4;

std::vector<std::vector<PartContent>> parts_of_files(const Catalogue& catalogue) {
    std::vector<std::vector<PartContent>> parts(catalogue.files.size());
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) {
        const catalogue::Tensor& tensor = catalogue.tensors[t];
        for (const catalogue::Piece& piece : tensor.pieces) {
            if (piece.replica == 0 && tensor.pieces.size() > 1) {
                parts.at(piece.file).emplace_back(t, piece.storage_bytes, piece.crc32);
            }
        }
    }
    return parts;
}

bool are_distinctive(const std::vector<PartContent>& parts) {
    std::map<Bytes, std::set<std::uint32_t>> contents;
    bool is_stated = true;
    for (const auto& [tensor, bytes, crc32] : parts) {
        is_stated = is_stated && crc32 != 0;
        contents[bytes].insert(crc32);
    }
    return is_stated && std::any_of(contents.begin(), contents.end(), [](const auto& of_size) {
               return of_size.second.size() >= kLeastContents;
           });
}

/// Error(mismatch) naming two files that hold different parts of the same tensors, but equal bytes
/// for all of them. Models of constants, and files whose archives state no CRC-32, pass. Pure.
void refuse_copies(const Catalogue& catalogue) {
    const auto parts = parts_of_files(catalogue);
    std::map<std::vector<PartContent>, std::size_t> seen;
    for (std::size_t file = 0; file < parts.size(); ++file) {
        const auto [at, is_new] = seen.emplace(parts[file], file);
        if (!is_new && are_distinctive(parts[file])) {
            throw Error(ErrorCode::mismatch,
                        printable(catalogue.files[at->second].path) + " and " +
                            printable(catalogue.files[file].path) +
                            " hold the same bytes for all " + std::to_string(parts[file].size()) +
                            " parts of tensors that they share",
                        "copy both again from where they were saved: one was copied over another "
                        "rank's file");
        }
    }
}

constexpr const char* kConfigFile = "fsdp_config.json";
constexpr std::array<KnownName, 3> kNames = {{
    {kConfigFile, ""},
    {"model_world_size_#_rank_#.pt", "a rank file of another world size", true},
    {"lora_train_meta.json", "settings of the adapter"},
}};

std::string summary(std::string_view noun, const Catalogue& out,
                    const std::vector<MeshDims>& meshes, Index world) {
    std::string text(noun);
    for (const auto& [fact, label] :
         {std::pair("iteration", ", iteration "), std::pair("fsdp_version", ", FSDP version ")}) {
        if (const auto at = out.facts.find(fact); at != out.facts.end()) {
            text += label + std::to_string(at->second);
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
    for (std::size_t d = 0; d < mesh.shape.size(); ++d) {
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
        for (const catalogue::MeshDim& dim : dims) {
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

std::optional<Location> probe_verl(const fs::path& directory) {
    const Listing listing = try_list_directory(directory);
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

std::optional<Location> probe_accelerate(const fs::path& directory) {
    const Listing listing = try_list_directory(directory);
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
    const auto unread = std::ranges::find_if(
        scans, [](const RankScan& scan) { return !scan.own.unread_state.empty(); });
    const std::string unread_state = unread == scans.end() ? "" : unread->own.unread_state;
    const auto meshes = scans.front().own.meshes;
    add_mesh(meshes, world, out);
    const auto missing = missing_files(ranks);
    JoinedRanks joined(missing, out);
    for (RankScan& scan : scans) {
        joined.add(std::exchange(scan, {}));
    }
    joined.finish();
    refuse_copies(out);
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
    const auto ranks = ranks_of(files.paths);
    RankGrid grid(files.mesh.empty() ? MeshDims{{"rank", ranks.front().world}} : files.mesh,
                  RankGrid::Place::missing);
    for (std::size_t file = 0; file < ranks.size(); ++file) {
        grid.put(static_cast<std::size_t>(ranks[file].rank), file);
    }
    return grid;
}

}  // namespace

/// verl's.
const Format fsdp_format = {
    .name = "verl fsdp",
    .backend = "fsdp",
    .noun = "verl FSDP checkpoint",
    .looks_for = "model_world_size_*_rank_*.pt",
    .option = InputOption::mesh,
    .subject = "FSDP checkpoints",
    .holds_weights_only = true,
    .neighbours = kNames,
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
    .looks_for = "pytorch_model_fsdp*_rank*.bin",
    .option = InputOption::mesh,
    .subject = "FSDP checkpoints",
    .holds_weights_only = true,
    .detail_of = world_size_of,
    .recognises =
        [](const Listing& listing) { return !choose_accelerate_files(listing.files).empty(); },
    .ranks = ranks_in,
    .probe = probe_accelerate,
    .scan = scan_typed<RankContent, scan_rank>,
    .combine = combine_typed<RankContent, join_ranks>,
};

}  // namespace shardweld::formats::fsdp

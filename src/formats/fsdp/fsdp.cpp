// FSDP checkpoints of a file for each rank: verl's model_world_size_W_rank_R.pt, accelerate's
// pytorch_model_fsdp_0_rankR.bin.
// Knows how the ranks' files are found and put together; never how a tensor is sharded.
// Sources: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py; accelerate 1.15
// utils/fsdp_utils.py.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

#include "join_ranks.hpp"
#include "mesh.hpp"
#include "rank_files.hpp"
#include "scan.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats::fsdp {

namespace {

using catalogue::Catalogue;

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

using catalogue::Catalogue;

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

class Fsdp : public FormatOf<RankContent> {
  public:
    [[nodiscard]] std::string_view name() const override { return "verl fsdp"; }
    [[nodiscard]] std::string_view backend() const override { return "fsdp"; }
    [[nodiscard]] std::string_view noun() const override { return "verl FSDP checkpoint"; }
    [[nodiscard]] bool holds_weights_only() const override { return true; }
    [[nodiscard]] std::string detail_of(const Location& location) const override {
        return "world size " + std::to_string(ranks_of(location.shard_files).front().world);
    }
    [[nodiscard]] std::string_view looks_for() const override {
        return "model_world_size_*_rank_*.pt";
    }
    [[nodiscard]] std::string_view subject_of(InputOption option) const override {
        return option == InputOption::mesh ? "FSDP checkpoints" : "";
    }

    [[nodiscard]] std::span<const KnownName> known_names() const override { return kNames; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override;

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        return location.shard_files;
    }

  private:
    [[nodiscard]] RankScan scan_file(const Location& location,
                                     const std::string& file) const override {
        return scan_rank(location, file);
    }

    [[nodiscard]] Catalogue join(const Location& location,
                                 std::vector<RankScan> scans) const override;
};

/// As verl's, with other names: LOCAL_STATE_DICT, and SHARDED_STATE_DICT with use_dcp=False.
class AccelerateFsdp final : public Fsdp {
  public:
    [[nodiscard]] std::string_view name() const override { return "accelerate fsdp"; }
    [[nodiscard]] std::string_view noun() const override {
        return "checkpoint of accelerate's FSDP";
    }
    [[nodiscard]] bool is_told_by(const Listing& listing) const override {
        return !choose_accelerate_files(listing.files).empty();
    }
    [[nodiscard]] std::string_view looks_for() const override {
        return "pytorch_model_fsdp*_rank*.bin";
    }
    [[nodiscard]] std::span<const KnownName> known_names() const override { return {}; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        Location location = begun_at(directory, &listing);
        location.shard_files = choose_accelerate_files(listing.files);
        return location.shard_files.empty() ? std::nullopt : std::optional(std::move(location));
    }
};

std::optional<Location> Fsdp::probe(const fs::path& directory) const {
    const Listing listing = try_list_directory(directory);
    std::optional<FsdpConfig> config;
    if (listing.has_file(kConfigFile)) {
        config = read_fsdp_config(directory / kConfigFile);
    }
    Location location = begun_at(directory);
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

Catalogue Fsdp::join(const Location& location, std::vector<RankScan> scans) const {
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
    join_ranks(std::move(scans), missing_files(ranks), out);
    refuse_copies(out);
    out.notes.insert(out.notes.begin(), summary(noun(), out, meshes, world));
    if (!unread_state.empty()) {
        out.notes.push_back(unread_state);
    }
    return out;
}

}  // namespace

const Format& fsdp_format() {
    static const Fsdp format;
    return format;
}

const Format& accelerate_format() {
    static const AccelerateFsdp format;
    return format;
}

}  // namespace shardweld::formats::fsdp

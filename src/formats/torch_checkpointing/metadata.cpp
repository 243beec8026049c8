#include "metadata.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/in_context.hpp"
#include "core/json.hpp"
#include "core/names/names.hpp"
#include "core/text.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/dcp/model_selection.hpp"
#include "formats/shared/model_values.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::torch_checkpointing {

namespace {

constexpr Bytes kLargestMetadata = Bytes{4} << 30U;
constexpr std::size_t kMostMeshesSaved = 1024;  // each may list as many ranks as there are
constexpr std::size_t kMostPlacings = 64;       // of one tensor
constexpr const char* kVersion = "2.0";
constexpr const char* kCopyAgain = "copy the file of the save again";

[[noreturn]] void refuse_saved(const std::string& what) {
    throw Error(ErrorCode::corrupt, what, kCopyAgain);
}

[[noreturn]] void refuse_kind(const std::string& what) {
    throw Error(ErrorCode::unsupported, what,
                "load it with its CheckpointManager and save with torch.distributed.checkpoint");
}

const PickleValue& saved_field(const PickleValue& mapping, std::string_view name) {
    const PickleValue* const value = mapping.find(name);
    if (value == nullptr) {
        refuse_saved("has no " + std::string(name));
    }
    return *value;
}

std::string_view saved_text(const PickleValue& mapping, std::string_view name) {
    const PickleValue& value = saved_field(mapping, name);
    if (value.kind != PickleKind::text) {
        refuse_saved(std::string(name) + " is " + in_words(value.kind) + ", expected a text");
    }
    return value.text();
}

/// Reads the values of one file; meshes, which many tensors share, once.
class SavedReader {
  public:
    explicit SavedReader(const PickleValue& root) {
        const std::string_view version = saved_text(root, "version");
        if (version != kVersion) {
            refuse_kind("is of version " + printable(version) + ", and only " + kVersion +
                        " is read");
        }
        saved_.world = read_count(saved_field(root, "world_size"), "world_size");
        if (saved_.world < 1 || saved_.world > kLargestWorld) {
            refuse_saved("world_size is " + std::to_string(saved_.world));
        }
        const PickleValue& items = saved_field(root, "metadata");
        for (std::size_t i = 0; i < items.pair_count(); ++i) {
            const std::string name(parameter_name(items.key(i)));
            in_context("item ", name, [&] { add_item(name, items.value(i)); });
        }
    }

    Saved take() { return std::move(saved_); }

  private:
    void add_item(const std::string& name, const PickleValue& value) {
        SavedItem& item = saved_.items[name];
        add_files(saved_field(value, "rank_to_layout_info"), name, item);
        const PickleValue& tensors = saved_field(value, "nested_path_to_metadata");
        for (std::size_t i = 0; i < tensors.pair_count(); ++i) {
            const std::string key(tensors.key(i).text());
            in_context("tensor ", key, [&] {
                auto& placings = item.tensors[path_of_key(name, key)];
                if (!placings.empty() || tensors.value(i).elements().size() > kMostPlacings) {
                    refuse_saved("is placed too often");
                }
                for (const PickleValue* const group : tensors.value(i).elements()) {
                    placings.push_back(read_placing(saved_field(*group, "sharding_metadata")));
                }
                if (placings.empty()) {
                    refuse_saved("is placed nowhere");
                }
            });
        }
    }

    void add_files(const PickleValue& layouts, const std::string& name, SavedItem& item) {
        for (const auto& [number, layout] : layouts.pairs()) {
            const Index rank = read_count(number, "a rank of rank_to_layout_info");
            if (rank >= saved_.world) {
                refuse_saved("has a file of rank " + std::to_string(rank) + ", world_size is " +
                             std::to_string(saved_.world));
            }
            const std::string file = layout.kind == PickleKind::none
                                         ? file_of_rank(name, rank)
                                         : std::string(saved_text(layout, "file_path"));
            if (!leads_below(file)) {
                refuse_saved("its file " + printable(file) + " leaves the checkpoint's directory");
            }
            if (!names_.insert(file).second) {
                refuse_saved("two ranks or items have the file " + printable(file));
            }
            item.files[rank] = file;
        }
    }

    static std::string path_of_key(const std::string& name, const std::string& key) {
        std::vector<std::string> path{name};
        const auto parts = parse_json<nlohmann::json>(key);
        for (const auto& part : parts.is_array() ? parts : nlohmann::json::array({nullptr})) {
            if (!part.is_string() && !part.is_number_integer()) {
                refuse_saved("its path is no list of names");
            }
            path.push_back(part.is_string() ? part.get<std::string>() : part.dump());
        }
        return dcp::path_name(path);
    }

    Placing read_placing(const PickleValue& metadata) {
        const std::string_view type = saved_text(metadata, "type");
        if (type != "DTensorShardingMetadata") {
            refuse_kind("it lies on its ranks by " + printable(type) + ", which is not read");
        }
        const PickleValue& data = saved_field(metadata, "data");
        Placing placing;
        fsdp::read_short_counts(saved_field(data, "global_shape"), "global_shape", placing.shape);
        volume_of(placing.shape, "global_shape");
        const std::string_view dtype = saved_text(data, "dtype");
        constexpr std::string_view kTorch = "torch.";
        const auto known = dtype_from_torch(
            dtype.substr(dtype.starts_with(kTorch) ? kTorch.size() : dtype.size()));
        if (!known) {
            refuse_kind("its dtype " + printable(dtype) + " is not known");
        }
        placing.dtype = *known;
        placing.mesh = mesh_number(saved_field(data, "mesh_spec"));
        for (const PickleValue* const one :
             fsdp::short_list(saved_field(data, "placements"), "placements")) {
            add_placement(*one, placing);
        }
        if (placing.placements.on.size() != saved_.meshes[placing.mesh].extents.size()) {
            refuse_saved("has " + counted(placing.placements.on.size(), "placement") +
                         " over a mesh of shape " +
                         shape_text(saved_.meshes[placing.mesh].extents));
        }
        return placing;
    }

    static void add_placement(const PickleValue& value, Placing& placing) {
        const std::string_view type = saved_text(value, "type");
        fsdp::MeshPlacement on;
        on.is_strided = type == "StridedShard";
        on.is_shard = on.is_strided || type == "Shard";
        if (!on.is_shard && type != "Replicate") {
            refuse_kind("it has the placement " + printable(type) + ", which is not read");
        }
        if (on.is_shard) {
            on.dim = static_cast<std::size_t>(read_count(saved_field(value, "dim"), "dim"));
            if (on.dim >= placing.shape.size()) {
                refuse_saved("shards dimension " + std::to_string(on.dim) +
                             " of a tensor of shape " + shape_text(placing.shape));
            }
            placing.placements.order.push_back(placing.placements.on.size());
        }
        if (on.is_strided) {
            on.split_factor = read_count(saved_field(value, "split_factor"), "split_factor");
            if (on.split_factor < 1) {
                refuse_saved("has a strided shard without a split factor");
            }
        }
        placing.placements.on.push_back(on);
    }

    std::uint32_t mesh_number(const PickleValue& spec) {
        const auto [known, is_new] =
            numbers_.emplace(&spec, static_cast<std::uint32_t>(saved_.meshes.size()));
        if (is_new) {
            if (saved_.meshes.size() == kMostMeshesSaved) {
                refuse_saved("has more than " + std::to_string(kMostMeshesSaved) + " meshes");
            }
            saved_.meshes.push_back(read_saved_mesh(spec));
        }
        return known->second;
    }

    [[nodiscard]] SavedMesh read_saved_mesh(const PickleValue& spec) const {
        SavedMesh mesh;
        fsdp::read_short_counts(saved_field(spec, "mesh_shape"), "mesh_shape", mesh.extents);
        const PickleValue* const names = spec.find("mesh_dim_names");
        if (names != nullptr && names->kind != PickleKind::none) {
            for (const PickleValue* const one : fsdp::short_list(*names, "mesh_dim_names")) {
                mesh.names.emplace_back(printable(one->text(), 60));
            }
        }
        std::set<Index> seen;
        for (const PickleValue* const one : saved_field(spec, "mesh_data").elements()) {
            mesh.ranks.push_back(read_count(*one, "a rank of mesh_data"));
            if (mesh.ranks.back() >= saved_.world || !seen.insert(mesh.ranks.back()).second) {
                refuse_saved("its mesh has rank " + std::to_string(mesh.ranks.back()) +
                             ", which is there twice or not in a job of " +
                             std::to_string(saved_.world));
            }
        }
        if (mesh.extents.empty() ||
            volume_of(mesh.extents, "mesh_shape") != std::ssize(mesh.ranks) || mesh.ranks.empty() ||
            (!mesh.names.empty() && mesh.names.size() != mesh.extents.size())) {
            refuse_saved("its mesh of shape " + shape_text(mesh.extents) + " lists " +
                         counted(mesh.ranks.size(), "rank") + " and " +
                         counted(mesh.names.size(), "name"));
        }
        return mesh;
    }

    Saved saved_;
    std::set<std::string> names_;  // of all files
    std::map<const PickleValue*, std::uint32_t> numbers_;
};

}  // namespace

std::optional<fsdp::RankMesh> Saved::seen_by(Index rank, std::uint32_t mesh) const {
    const SavedMesh& saved = meshes.at(mesh);
    const auto found = std::ranges::find(saved.ranks, rank);
    if (found == saved.ranks.end()) {
        return std::nullopt;
    }
    const auto own = static_cast<std::size_t>(found - saved.ranks.begin());
    fsdp::RankMesh seen{saved.extents, saved.names, std::vector<Index>(saved.extents.size()), rank,
                        std::vector<bool>(saved.extents.size(), true)};
    std::size_t stride = 1;
    for (std::size_t d = saved.extents.size(); d-- > 0;) {
        const auto extent = static_cast<std::size_t>(saved.extents[d]);
        const std::size_t at = own / stride % extent;
        seen.coordinate[d] = static_cast<Index>(at);
        for (std::size_t k = 1; k < extent; ++k) {
            const std::size_t begin = own - at * stride;
            seen.ascending[d] = seen.ascending[d] && saved.ranks[begin + (k - 1) * stride] <
                                                         saved.ranks[begin + k * stride];
        }
        stride *= extent;
    }
    return seen;
}

std::string file_of_rank(const std::string& item, Index rank) {
    return item + "_" + std::to_string(rank) + ".pt";
}

std::optional<Saved> read_saved(const fs::path& file) {
    return in_context("file ", kMetadataFile, [&]() -> std::optional<Saved> {
        const Pickle pickle = Pickle::parse(io::read_bytes(file, kLargestMetadata));
        const PickleValue& root = pickle.root();
        if (root.find("world_size") == nullptr || root.find("metadata") == nullptr ||
            !root.find("metadata")->is_mapping()) {
            return std::nullopt;
        }
        return SavedReader(root).take();
    });
}

}  // namespace shardweld::formats::torch_checkpointing

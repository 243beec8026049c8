#include "entries.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/in_context.hpp"
#include "core/process/stop_point.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/duplicate_names.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "shardweld/error.hpp"

#include "dtensor.hpp"
#include "mesh.hpp"
#include "placements.hpp"
#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

namespace {

/// Where one shard lies in the tensor, and on which rank.
struct ShardPlace {
    std::vector<Index> offsets;
    std::vector<Index> sizes;
    std::optional<Index> rank;  ///< where the file tells it
};

[[noreturn]] void fail_sharded(const std::string& message) {
    throw Error(ErrorCode::corrupt, "a ShardedTensor " + message);
}

const PickleValue& required(const PickleValue& object, std::string_view name) {
    const PickleValue* const value = object.attribute(name);
    if (value == nullptr) {
        fail_sharded("has no " + std::string(name));
    }
    return *value;
}

std::optional<Index> integer_of(const PickleValue* value) {
    return value != nullptr && value->kind == PickleKind::integer ? std::optional(value->integer)
                                                                  : std::nullopt;
}

// Into `place`, whose memory is used again: a file tells the places of all ranks' shards.
void read_place(const PickleValue& metadata, const std::vector<Index>& shape, ShardPlace& place) {
    read_short_counts(required(metadata, "shard_offsets"), "a shard's offsets", place.offsets);
    read_short_counts(required(metadata, "shard_sizes"), "a shard's sizes", place.sizes);
    if (!lies_inside(place.offsets, place.sizes, shape)) {
        fail_sharded("of shape " + shape_text(shape) + " has a shard of " +
                     shape_text(place.sizes) + " at " + shape_text(place.offsets));
    }
    const PickleValue* const placement = metadata.attribute("placement");
    place.rank = placement == nullptr ? std::nullopt : integer_of(placement->attribute("_rank"));
}

void check_rank(std::optional<Index> found, const RankFile& expected) {
    if (found && *found != expected.rank) {
        throw Error(ErrorCode::mismatch,
                    "it was saved by rank " + std::to_string(*found) + ", which belongs in " +
                        file_name({expected.world, *found, expected.stem}) +
                        "; the file is named " + file_name(expected),
                    "give each file the name that it was saved with");
    }
}

/// The number in the group that shares the tensor: HYBRID_SHARD without a mesh has a group for each
/// copy. The group is the state of `parts`: (shards, metadata, group, sharding spec, flag).
Index number_in_group(PickleValues parts, const RankFile& rank) {
    const PickleValue* const group = parts.size() > 2 ? parts[2] : nullptr;
    if (group == nullptr) {
        return rank.rank;
    }
    check_rank(integer_of(group->attribute("global_rank")), rank);
    return integer_of(group->attribute("local_rank")).value_or(rank.rank);
}

// All shards' places, as this rank knows them: its own are those that it holds.
void check_metadata(const PickleValue& metadata, const std::vector<Index>& shape,
                    const std::vector<ShardPlace>& held, const RankFile& rank, Index in_group,
                    std::size_t& entries_left) {
    if (short_counts(required(metadata, "size"), "a ShardedTensor's size") != shape) {
        fail_sharded("has two global shapes");
    }
    // The list numbers ranks in the group (torch 2.2) or in the job (2.8).
    const bool is_clear = in_group == rank.rank;
    std::size_t n_own = 0;
    ShardPlace place;
    for (const PickleValue* const entry : required(metadata, "shards_metadata").elements()) {
        if (entries_left-- == 0) {
            fail_sharded("repeats the list of its shards more often than its file is long");
        }
        read_place(*entry, shape, place);
        if (!is_clear || place.rank != in_group || volume_of(place.sizes, "a shard") == 0) {
            continue;
        }
        ++n_own;
        const bool is_held = std::ranges::any_of(held, [&](const ShardPlace& mine) {
            return mine.offsets == place.offsets && mine.sizes == place.sizes;
        });
        if (!is_held) {
            throw mixed_saves_error("its metadata gives the shard of " + shape_text(place.sizes) +
                                    " at " + shape_text(place.offsets) +
                                    " to this rank, which does not hold it");
        }
    }
    if (n_own > held.size()) {
        fail_sharded("names a shard twice");
    }
}

// Adds a local shard's pieces; its place.
ShardPlace add_shard(const TorchFile& file, const PickleValue& shard, const RankFile& rank,
                     Index in_group, bool is_first, Tensor& tensor) {
    const PickleValue& value = required(shard, "tensor");
    const auto local = file.tensor(value);
    if (!local) {
        refuse_value(value);
    }
    ShardPlace place;
    read_place(required(shard, "metadata"), tensor.shape, place);
    if (place.rank != in_group) {  // a shard's own number is that in the group
        check_rank(place.rank, rank);
    }
    require_equal("the shape of its shard at " + shape_text(place.offsets), local->shape,
                  "the tensor", place.sizes, "its metadata");
    if (is_first) {
        tensor.dtype = local->dtype;  // what is stored, should it differ from what is said
    } else if (local->dtype != tensor.dtype) {
        fail_sharded("has shards of two dtypes");
    }
    std::vector<Runs> runs;
    for (const std::size_t k : indices(place.sizes)) {
        runs.push_back(place.sizes[k] > 0 ? Runs{{place.offsets[k], place.sizes[k]}} : Runs{});
    }
    const auto pieces = pieces_of(*local, runs);
    append_all(tensor.pieces, pieces);
    return place;
}

/// Whether the tensor's group tells the rank: it is that of the file's name then.
bool knows_rank_of_group(const Subclass& value) {
    const auto parts = value.state->elements();
    return parts.size() > 2 && integer_of(parts[2]->attribute("global_rank")).has_value();
}

/// A ShardedTensor with its pieces in this file; without a name. Every rank repeats the places of
/// all shards: those of this rank are compared with what it holds, so that ranks which disagree
/// leave a gap or an overlap. `entries_left` is lowered by what is visited. Error(mismatch) when
/// shards and their places contradict each other or another rank saved them; Error(corrupt) when
/// malformed.
Tensor read_sharded_tensor(const TorchFile& file, const Subclass& value, const RankFile& rank,
                           std::size_t& entries_left) {
    const auto parts = value.state->elements();
    if (parts.size() < 2 || parts[0]->kind != PickleKind::list) {
        fail_sharded("has no list of local shards");
    }
    const Index in_group = number_in_group(parts, rank);
    Tensor tensor;
    tensor.shape = value.shape;
    tensor.dtype = dtype_of_global(*value.dtype).value_or(tensor.dtype);
    volume_of(value.shape, "a tensor's global shape");
    std::vector<ShardPlace> held;
    for (const PickleValue* const shard : short_list(*parts[0], "a ShardedTensor's shards")) {
        held.push_back(add_shard(file, *shard, rank, in_group, held.empty(), tensor));
    }
    check_metadata(*parts[1], value.shape, held, rank, in_group, entries_left);
    return tensor;
}

constexpr std::size_t kLeastOfDTensor = 256;  // bytes of pickle

// Collects one file.
class RankReader {
  public:
    RankReader(const TorchFile& file, const RankFile& rank, const Mesh& by_hand, Catalogue& out)
        : file_(file),
          rank_(rank),
          dtensors_(file, rank, by_hand),
          entries_left_(file.pickle().consumed()),
          values_(file, ignored_),
          out_(out) {
        if (by_hand.shape.empty()) {
            at_.fsdp = to_int(rank.rank, "a rank");
            return;
        }
        const RankMesh mesh = mesh_by_hand(by_hand, rank.rank, rank.world);
        for (const std::size_t d : indices(mesh.extents)) {
            if (mesh.names[d] == "tp") {
                at_.tp = to_int(mesh.coordinate[d], "a tensor-parallel rank");
            } else if (!is_replicating(mesh.names[d])) {
                at_.fsdp = to_int(at_.fsdp * mesh.extents[d] + mesh.coordinate[d], "a rank");
            }
        }
    }

    void add_entries(const Entries& entries) {
        names_.reserve(entries.size());
        out_.tensors.reserve(std::min(entries.size(), file_.pickle().consumed() / kLeastOfDTensor));
        for (const auto& [name, value] : entries) {
            stop_point();
            in_context("tensor ", name, [&, value = value, name = name] { add(name, *value); });
        }
        require_distinct(names_);
        out_.ignored = ignored_.rows();
    }

    [[nodiscard]] std::vector<MeshDims> meshes() const { return dtensors_.meshes(); }
    /// Whether a tensor told the rank, and it is that of the file's name.
    [[nodiscard]] bool knows_rank() const { return knows_rank_ || dtensors_.knows_rank(); }

  private:
    void add(std::string_view key, const PickleValue& value) {
        if (is_extra_state(key)) {
            values_.leave_aside(key, value, "extra state");
            return;
        }
        if (is_flat_parameter(key)) {
            refuse_flat_parameter(
                "this is FSDP's LOCAL_STATE_DICT",
                "load it in the trainer that wrote it, and save with SHARDED_STATE_DICT instead");
        }
        auto subclass = subclass_of(value);
        const auto tensor = subclass ? std::nullopt : file_.tensor(value);
        if (!subclass && !tensor) {
            values_.leave_aside(key, value);
            return;
        }
        names_.push_back(key);
        if (subclass) {
            add_global(std::string(key), std::move(*subclass));
        } else {
            out_.shards.push_back(
                {std::string(key), tensor->dtype, tensor->shape, at_, piece_of(*tensor)});
        }
    }

    void add_global(std::string name, Subclass value) {
        const std::string_view type = distributed_class(*value.type);
        if (type != "DTensor" && type != "ShardedTensor") {
            throw Error(ErrorCode::unsupported,
                        "it is a " + describe(*value.type) + ", which is not read",
                        "save torch's DTensor, ShardedTensor or plain tensors");
        }
        knows_rank_ = knows_rank_ || (type == "ShardedTensor" && knows_rank_of_group(value));
        Tensor tensor = type == "DTensor" ? dtensors_.read(std::move(value))
                                          : read_sharded_tensor(file_, value, rank_, entries_left_);
        n_pieces_ += tensor.pieces.size();
        if (n_pieces_ > kMostPieces) {
            throw Error(ErrorCode::unsupported, "the tensors up to here fall into more than " +
                                                    std::to_string(kMostPieces) + " boxes");
        }
        if (volume_of(tensor.shape, "a tensor's global shape") == 0) {
            ignored_.add({pattern_of(printable(name)), "empty tensor"}, 1, 0);
        } else {
            tensor.name = std::move(name);
            out_.tensors.push_back(std::move(tensor));
        }
    }

    const TorchFile& file_;
    RankFile rank_;
    DTensorReader dtensors_;
    std::size_t entries_left_;
    std::size_t n_pieces_ = 0;
    bool knows_rank_ = false;
    Coordinates at_;
    std::vector<std::string_view> names_;
    IgnoredRows ignored_;
    ModelValues values_;
    Catalogue& out_;
};

}  // namespace

EntriesRead read_entries(const TorchFile& file, const RankFile& rank, const Mesh& by_hand,
                         const Entries& entries, Catalogue& out) {
    RankReader reader(file, rank, by_hand, out);
    reader.add_entries(entries);
    return {reader.meshes(), reader.knows_rank()};
}

}  // namespace shardweld::formats::fsdp

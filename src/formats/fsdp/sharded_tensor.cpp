#include "sharded_tensor.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "catalogue/tensor.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "shardweld/error.hpp"

#include "pieces.hpp"
#include "short_list.hpp"

namespace shardweld::formats::fsdp {

namespace {

/// The rank that a file is of, by its numbers in the job and in the group that shares the tensor:
/// HYBRID_SHARD without a mesh has a group for each copy.
struct Holder {
    RankFile file;
    Index in_group;
};

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
    bool is_inside = place.offsets.size() == shape.size() && place.sizes.size() == shape.size();
    for (std::size_t k = 0; is_inside && k < shape.size(); ++k) {
        is_inside = place.offsets[k] <= shape[k] && place.sizes[k] <= shape[k] - place.offsets[k];
    }
    if (!is_inside) {
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

// The group's state of `parts`: (shards, metadata, group, sharding spec, flag).
Holder holder_of(std::span<const PickleValue* const> parts, const RankFile& rank) {
    const PickleValue* const group = parts.size() > 2 ? parts[2] : nullptr;
    if (group != nullptr) {
        check_rank(integer_of(group->attribute("global_rank")), rank);
    }
    const auto in_group =
        group == nullptr ? std::nullopt : integer_of(group->attribute("local_rank"));
    return {rank, in_group.value_or(rank.rank)};
}

bool same(const ShardPlace& a, const ShardPlace& b) {
    return a.offsets == b.offsets && a.sizes == b.sizes;
}

// All shards' places, as this rank knows them: its own are those that it holds.
void check_metadata(const PickleValue& metadata, const std::vector<Index>& shape,
                    const std::vector<ShardPlace>& held, const Holder& holder,
                    std::size_t& entries_left) {
    if (short_counts(required(metadata, "size"), "a ShardedTensor's size") != shape) {
        fail_sharded("has two global shapes");
    }
    // The list numbers ranks in the group (torch 2.2) or in the job (2.8).
    const bool is_clear = holder.in_group == holder.file.rank;
    std::size_t n_own = 0;
    ShardPlace place;
    for (const PickleValue* const entry : required(metadata, "shards_metadata").elements()) {
        if (entries_left-- == 0) {
            fail_sharded("repeats the list of its shards more often than its file is long");
        }
        read_place(*entry, shape, place);
        if (!is_clear || place.rank != holder.in_group || volume_of(place.sizes, "a shard") == 0) {
            continue;
        }
        ++n_own;
        const bool is_held = std::any_of(held.begin(), held.end(),
                                         [&](const ShardPlace& mine) { return same(mine, place); });
        if (!is_held) {
            throw Error(ErrorCode::mismatch,
                        "its metadata gives the shard of " + shape_text(place.sizes) + " at " +
                            shape_text(place.offsets) + " to this rank, which does not hold it",
                        kOneSave);
        }
    }
    if (n_own > held.size()) {
        fail_sharded("names a shard twice");
    }
}

// Adds a local shard's pieces; its place.
ShardPlace add_shard(const TorchFile& file, const PickleValue& shard, const Holder& holder,
                     bool is_first, catalogue::Tensor& tensor) {
    const PickleValue& value = required(shard, "tensor");
    const auto local = file.tensor(value);
    if (!local) {
        refuse_value(value);
    }
    ShardPlace place;
    read_place(required(shard, "metadata"), tensor.shape, place);
    if (place.rank != holder.in_group) {  // a shard's own number is that in the group
        check_rank(place.rank, holder.file);
    }
    if (local->shape != place.sizes) {
        throw Error(ErrorCode::mismatch,
                    "its shard at " + shape_text(place.offsets) + " is " +
                        shape_text(local->shape) + ", but its metadata says " +
                        shape_text(place.sizes),
                    kOneSave);
    }
    if (is_first) {
        tensor.dtype = local->dtype;  // what is stored, should it differ from what is said
    } else if (local->dtype != tensor.dtype) {
        fail_sharded("has shards of two dtypes");
    }
    std::vector<Runs> runs;
    for (std::size_t k = 0; k < place.sizes.size(); ++k) {
        runs.push_back(place.sizes[k] > 0 ? Runs{{place.offsets[k], place.sizes[k]}} : Runs{});
    }
    const auto pieces = pieces_of(*local, runs);
    tensor.pieces.insert(tensor.pieces.end(), pieces.begin(), pieces.end());
    return place;
}

}  // namespace

bool knows_rank_of_group(const Subclass& value) {
    const auto parts = value.state->elements();
    return parts.size() > 2 && integer_of(parts[2]->attribute("global_rank")).has_value();
}

catalogue::Tensor read_sharded_tensor(const TorchFile& file, const Subclass& value,
                                      const RankFile& rank, std::size_t& entries_left) {
    const auto parts = value.state->elements();
    if (parts.size() < 2 || parts[0]->kind != PickleKind::list) {
        fail_sharded("has no list of local shards");
    }
    const Holder holder = holder_of(parts, rank);
    catalogue::Tensor tensor;
    tensor.shape = value.shape;
    tensor.dtype = dtype_of_global(*value.dtype).value_or(tensor.dtype);
    volume_of(value.shape, "a tensor's global shape");
    std::vector<ShardPlace> held;
    for (const PickleValue* const shard : short_list(*parts[0], "a ShardedTensor's shards")) {
        held.push_back(add_shard(file, *shard, holder, held.empty(), tensor));
    }
    check_metadata(*parts[1], value.shape, held, holder, entries_left);
    return tensor;
}

}  // namespace shardweld::formats::fsdp

// Pickles of DTensors and ShardedTensors in the spellings of several torch versions.
// Knows the classes' states; what is in them is the tests' business.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "torch_builder.hpp"

namespace shardweld::test::fsdp {

using Fields = std::vector<std::pair<std::string, std::string>>;
using Counts = std::vector<std::int64_t>;

inline const std::string kNone = "N";

inline std::string dict(const Fields& fields) {
    std::string text = "}(";
    for (const auto& [name, value] : fields) {
        text += unicode(name) + value;
    }
    return text + "u";
}

/// NEWOBJ and BUILD.
inline std::string made(const std::string& type, const std::string& state) {
    return global(type) + ")\x81" + (state.empty() ? "" : state + "b");
}

inline std::string names(const std::vector<std::string>& texts) {
    std::vector<std::string> parts;
    for (const std::string& text : texts) {
        parts.push_back(unicode(text));
    }
    return tuple(parts);
}

inline std::string list(const std::vector<std::string>& parts) {
    std::string text = "](";
    for (const std::string& part : parts) {
        text += part;
    }
    return text + "e";
}

inline std::string list_of(const Counts& values) {
    std::vector<std::string> parts;
    for (const std::int64_t value : values) {
        parts.push_back(integer(value));
    }
    return list(parts);
}

/// float32 under record `key`, contiguous.
inline std::string local_tensor(const std::string& key, const Counts& shape,
                                const std::string& storage_type = "torch FloatStorage") {
    Counts strides(shape.size(), 1);
    std::int64_t volume = 1;
    for (std::size_t k = shape.size(); k-- > 0;) {
        strides[k] = volume;
        volume *= shape[k];
    }
    return tensor_v2(storage(storage_type, key, volume), 0, shape, strides);
}

inline const std::string kOld = "torch.distributed._tensor.placement_types ";
inline const std::string kNew = "torch.distributed.tensor.placement_types ";

inline std::string shard(std::int64_t dim, const std::string& module = kNew) {
    return made(module + "Shard", dict({{"dim", integer(dim)}}));
}
inline std::string strided(std::int64_t dim, std::int64_t factor) {
    return made(kNew + "_StridedShard",
                dict({{"dim", integer(dim)}, {"split_factor", integer(factor)}}));
}
inline std::string replicate() {
    return made(kNew + "Replicate", "");
}

/// torch 2.4 to 2.8: all ranks' numbers in a list.
inline std::string mesh_24(const Counts& shape, const Counts& coordinate, const Counts& ranks) {
    return made("torch.distributed.device_mesh DeviceMesh",
                dict({{"device_type", unicode("cuda")},
                      {"mesh", local_tensor("mesh", shape)},
                      {"mesh_dim_names", kNone},
                      {"_flatten_mesh_list", counts(ranks)},
                      {"_coordinate_on_dim", list_of(coordinate)}}));
}

/// Newer: a layout in one of its forms, and the own rank.
inline std::string mesh_215(const std::string& layout, const Counts& coordinate, std::int64_t rank,
                            const std::string& dim_names = kNone) {
    return made("torch.distributed.device_mesh DeviceMesh",
                dict({{"_device_type", unicode("cuda")},
                      {"_layout", layout},
                      {"_mesh_dim_names", dim_names},
                      {"_rank", integer(rank)},
                      {"_coordinate_on_dim", counts(coordinate)}}));
}
/// As pickled by torch 2.15: `strides` into the list of all ranks.
inline std::string mesh_of_ranks(const Counts& shape, const Counts& strides,
                                 const Counts& coordinate, std::int64_t rank, const Counts& ranks,
                                 const std::string& keeps_order = "\x89",
                                 const std::string& axes_name = "axes") {
    std::vector<std::string> axes;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        axes.push_back(
            made("torch.distributed._mesh_layout _FlatLayout",
                 dict({{"shape", counts({shape[d]})}, {"stride", counts({strides[d]})}})));
    }
    return made("torch.distributed.device_mesh DeviceMesh",
                dict({{"_device_type", unicode("cuda")},
                      {"_layout", made("torch.distributed._mesh_layout _MeshLayout",
                                       dict({{axes_name, tuple(axes)}}))},
                      {"_flatten_rank_map", counts(ranks)},
                      {"_preserve_rank_order", keeps_order},
                      {"_rank", integer(rank)},
                      {"_coordinate_on_dim", counts(coordinate)}}));
}
inline std::string layout_of(const Fields& fields) {
    return made("torch.distributed._mesh_layout _MeshLayout", dict(fields));
}
inline std::string flat_layout(const std::string& shape) {
    return made("torch.distributed._mesh_layout _FlatLayout",
                dict({{"shape", shape}, {"stride", integer(1)}}));
}

inline std::string wrapper(const std::string& type, const Counts& shape, const std::string& state) {
    const std::string made_of = tuple(
        {global(type), global("torch float32"), counts(shape), counts(Counts(shape.size(), 1)),
         integer(0), call("torch.serialization _get_layout", {unicode("torch.strided")}),
         call("torch device", {unicode("cpu")}), "\x89"});
    return call("torch._tensor _rebuild_from_type_v2",
                {global("torch._utils _rebuild_wrapper_subclass"), global(type), made_of, state});
}

inline std::string dtensor(const Counts& shape, const std::string& local, const std::string& mesh,
                           const std::vector<std::string>& placements, const Fields& more = {},
                           const std::string& type = "torch.distributed.tensor DTensor") {
    Fields spec = {{"mesh", mesh}, {"placements", tuple(placements)}};
    spec.insert(spec.end(), more.begin(), more.end());
    return wrapper(type, shape,
                   tuple({kNone, dict({{"_local_tensor", local},
                                       {"_spec", made("torch.distributed.tensor._dtensor_spec "
                                                      "DTensorSpec",
                                                      dict(spec))}})}));
}

inline std::string place(const Counts& offsets, const Counts& sizes, std::int64_t rank) {
    return made("torch.distributed._shard.metadata ShardMetadata",
                tuple({kNone, dict({{"shard_offsets", list_of(offsets)},
                                    {"shard_sizes", list_of(sizes)},
                                    {"placement", made("torch.distributed.remote_device "
                                                       "_remote_device",
                                                       dict({{"_rank", integer(rank)}}))}})}));
}
inline std::string local_shard(const std::string& tensor, const std::string& where) {
    return made("torch.distributed._shard.sharded_tensor.shard Shard",
                tuple({kNone, dict({{"tensor", tensor}, {"metadata", where}})}));
}
/// The state of the group that shares a ShardedTensor, as one of its ranks pickles it.
inline std::string group_state(std::int64_t rank_in_group, std::int64_t rank) {
    return made("torch.distributed._shard.sharded_tensor.api ShardedTensor.ProcessGroupState",
                dict({{"local_rank", integer(rank_in_group)}, {"global_rank", integer(rank)}}));
}
inline std::string sharded_tensor(const Counts& shape, const std::vector<std::string>& shards,
                                  const std::vector<std::string>& places,
                                  const std::string& group = kNone) {
    const std::string metadata =
        made("torch.distributed._shard.sharded_tensor.metadata ShardedTensorMetadata",
             dict({{"shards_metadata", list(places)}, {"size", counts(shape)}}));
    return wrapper("torch.distributed._shard.sharded_tensor.api ShardedTensor", shape,
                   tuple({list(shards), metadata, group, kNone, "\x89"}));
}

/// A rank file of the entries, with zeros for the records of float32 tensors up to 64 elements.
inline std::string rank_file(const Fields& entries) {
    const std::string zeros(256, '\0');
    return torch_file(dict(entries), {{"a", zeros}, {"b", zeros}, {"mesh", zeros}});
}

}  // namespace shardweld::test::fsdp

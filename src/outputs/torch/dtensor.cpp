#include "dtensor.hpp"

#include <numeric>

#include "core/lists.hpp"
#include "core/strides.hpp"
#include "outputs/little_endian.hpp"

#include "tensor_pickle.hpp"

namespace shardweld::outputs::torch {

namespace {

constexpr std::string_view kMeshLayout = "torch.distributed._mesh_layout";
constexpr std::string_view kPlacements = "torch.distributed.tensor.placement_types";
constexpr std::string_view kSpec = "torch.distributed.tensor._dtensor_spec";

Index n_ranks(const DeviceMesh& mesh) {
    return volume_of(mesh.shape, "a device mesh");
}

/// 0, 1, 2, ... as int32.
std::string rank_bytes(Index count) {
    std::string bytes;
    for (Index rank = 0; rank < count; ++rank) {
        append_number(bytes, static_cast<std::uint64_t>(rank), 4);
    }
    return bytes;
}

std::vector<Index> all_ranks(const DeviceMesh& mesh) {
    std::vector<Index> ranks(as_size(n_ranks(mesh)));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// Where a rank stands in each dim.
std::vector<Index> coordinate_of(const DeviceMesh& mesh, Index rank) {
    std::vector<Index> coordinate = dense_strides(mesh.shape);
    for (const std::size_t i : indices(coordinate)) {
        coordinate[i] = rank / coordinate[i] % mesh.shape[i];
    }
    return coordinate;
}

void put_names(PickleWriter& out, const DeviceMesh& mesh) {
    out.op(PickleOp::mark);
    for (const std::string& name : mesh.names) {
        out.text(name);
    }
    out.op(PickleOp::tuple);
}

void put_layout(PickleWriter& out, const DeviceMesh& mesh) {
    const std::vector<Index> strides = dense_strides(mesh.shape);
    begin_object(out, kMeshLayout, "_MeshLayout").text("axes");
    out.op(PickleOp::mark);
    for (const std::size_t i : indices(mesh.shape)) {
        begin_object(out, kMeshLayout, "_FlatLayout");
        out.text("shape").indices(std::span(mesh.shape).subspan(i, 1));
        out.text("stride").indices(std::span(strides).subspan(i, 1));
        out.end_object();
    }
    out.op(PickleOp::tuple).end_object();
}

/// Names of the process groups of the mesh's dims. A state of an optimizer stays on the mesh that
/// it was read with, and finds by them whom to gather from. The one dim of a mesh of all ranks has
/// torch's default group, "0"; what others are called depends on the groups that were made before,
/// and a mesh that names none at least gathers from no wrong one.
bool has_default_group(const DeviceMesh& mesh) {
    return mesh.shape.size() == 1;
}

void put_group_names(PickleWriter& out, const DeviceMesh& mesh) {
    out.text("_dim_group_names").op(PickleOp::empty_list);
    if (has_default_group(mesh)) {
        out.text("0").op(PickleOp::append);
    }
}

void put_list(PickleWriter& out, std::span<const Index> numbers) {
    out.op(PickleOp::empty_list).op(PickleOp::mark);
    for (const Index number : numbers) {
        out.integer(number);
    }
    out.op(PickleOp::appends);
}

/// As torch 2.4 to 2.8 have them: a tag, ranks and the name.
void put_group_infos(PickleWriter& out, const DeviceMesh& mesh) {
    out.text("_dim_group_infos").op(PickleOp::empty_list);
    if (has_default_group(mesh)) {
        out.text("ptd:0");
        put_list(out, all_ranks(mesh));
        out.text("0").op(PickleOp::tuple3).op(PickleOp::append);
    }
}

void put_layout_state(PickleWriter& out, const DeviceMesh& mesh, Index rank,
                      const DTensorParts& parts) {
    out.text("_device_type").text(mesh.device_type).text("_layout");
    put_layout(out, mesh);
    out.text("_rank_map");
    parts.put_ranks({n_ranks(mesh)}, rank_bytes(n_ranks(mesh)));
    out.text("_mesh_dim_names");
    put_names(out, mesh);
    out.text("_root_mesh").none().text("_preserve_rank_order").boolean(false);
    out.text("_flatten_rank_map").indices(all_ranks(mesh)).text("_thread_id").none();
    out.text("_flatten_mapping").op(PickleOp::empty_dict);
    put_group_names(out, mesh);
    out.text("_rank").integer(rank);
    out.text("_coordinate_on_dim").indices(coordinate_of(mesh, rank)).text("_hash").none();
}

void put_ranks_state(PickleWriter& out, const DeviceMesh& mesh, Index rank,
                     const DTensorParts& parts) {
    out.text("device_type").text(mesh.device_type).text("mesh");
    parts.put_ranks(mesh.shape, rank_bytes(n_ranks(mesh)));
    out.text("mesh_dim_names");
    put_names(out, mesh);
    out.text("_flatten_mesh_list").indices(all_ranks(mesh)).text("_parent_mesh").none();
    out.text("_thread_id").none();
    put_group_infos(out, mesh);
    out.text("_coordinate_on_dim");
    put_list(out, coordinate_of(mesh, rank));
    out.text("_hash").none();
}

/// Stands in the pickle once.
void put_mesh(PickleWriter& out, const DeviceMesh& mesh, Index rank, const DTensorParts& parts) {
    constexpr const char* kKey = "object mesh";
    if (out.recall(kKey)) {
        return;
    }
    put_object(out, "torch.distributed.device_mesh", "DeviceMesh");
    out.memoize(kKey);
    out.begin_dictionary();
    if (mesh.is_of_ranks) {
        put_ranks_state(out, mesh, rank, parts);
    } else {
        put_layout_state(out, mesh, rank, parts);
    }
    out.end_object();
}

void put_placements(PickleWriter& out, std::size_t n_dims) {
    out.op(PickleOp::mark);
    for (std::size_t i = 0; i + 1 < n_dims; ++i) {
        put_object(out, kPlacements, "Replicate").op(PickleOp::empty_dict).op(PickleOp::build);
    }
    begin_object(out, kPlacements, "Shard");
    out.text("dim").integer(0).end_object().op(PickleOp::tuple);
}

/// Mesh dims in the order in which they cut tensor dims: only the last one cuts.
void put_shard_order(PickleWriter& out, std::size_t n_dims) {
    const Index last = static_cast<Index>(n_dims) - 1;
    out.global(kSpec, "ShardOrderEntry").integer(0).indices(std::span(&last, 1));
    out.op(PickleOp::tuple2).op(PickleOp::newobj).op(PickleOp::tuple1);
}

void put_spec(PickleWriter& out, DType dtype, std::span<const Index> whole, const DeviceMesh& mesh,
              Index rank, const DTensorParts& parts) {
    begin_object(out, kSpec, "DTensorSpec").text("mesh");
    put_mesh(out, mesh, rank, parts);
    out.text("placements");
    put_placements(out, mesh.shape.size());
    out.text("tensor_meta").global(kSpec, "TensorMeta");
    put_size(out, whole);
    out.indices(dense_strides(whole));
    put_dtype(out, dtype);
    out.op(PickleOp::tuple3).op(PickleOp::newobj);
    if (!mesh.is_of_ranks) {
        out.text("shard_order");
        put_shard_order(out, mesh.shape.size());
        out.text("use_strided_shard_as_shard_order").boolean(false);
    }
    out.text("_hash").none().end_object();
}

}  // namespace

std::size_t place_size(const DeviceMesh& mesh, Index rank) {
    PickleWriter out(2);
    return out.integer(rank).indices(coordinate_of(mesh, rank)).finish().size();
}

void put_dtensor(PickleWriter& out, DType dtype, std::span<const Index> whole,
                 const DeviceMesh& mesh, Index rank, const DTensorParts& parts) {
    const auto put_class = [&] { out.global("torch.distributed.tensor", "DTensor"); };
    out.global("torch._tensor", "_rebuild_from_type_v2").op(PickleOp::mark);
    out.global("torch._utils", "_rebuild_wrapper_subclass");
    put_class();
    out.op(PickleOp::mark);
    put_class();
    put_dtype(out, dtype);
    out.indices(whole).indices(dense_strides(whole)).integer(0);
    put_strided_layout(out);
    put_cpu(out);
    out.boolean(false).op(PickleOp::tuple);
    out.none().begin_dictionary().text("_local_tensor");
    parts.put_local();
    out.text("_spec");
    put_spec(out, dtype, whole, mesh, rank, parts);
    out.op(PickleOp::setitems).op(PickleOp::tuple2);
    out.op(PickleOp::tuple).op(PickleOp::reduce);
}

}  // namespace shardweld::outputs::torch

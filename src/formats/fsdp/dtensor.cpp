#include "dtensor.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "owned.hpp"
#include "pieces.hpp"
#include "placements.hpp"
#include "short_list.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr std::size_t kMostTexts = 8;
constexpr std::size_t kMostMeshes = 1024;  // each may list as many ranks as there are

const PickleValue& required(const PickleValue* value, std::string_view what) {
    if (value == nullptr) {
        throw Error(ErrorCode::corrupt, "a DTensor has no " + std::string(what));
    }
    return *value;
}

void check_local(const StoredTensor& local, const std::vector<Runs>& runs, const Subclass& value,
                 const Placements& placements, const RankMesh& mesh) {
    std::vector<Index> expected;
    expected.reserve(runs.size());
    for (const Runs& of_dim : runs) {
        expected.push_back(length_of(of_dim));
    }
    if (local.shape != expected) {
        throw Error(ErrorCode::mismatch,
                    "its local tensor is " + shape_text(local.shape) + ", but " +
                        placements_text(placements) + " of " + shape_text(value.shape) +
                        " over the mesh " + mesh_text(mesh) + " gives " + shape_text(expected) +
                        " to the rank at " + shape_text(mesh.coordinate) +
                        "; if that mesh is wrong, say it by hand: --mesh_dim_names and "
                        "--mesh_shape");
    }
}

// torch's process groups sort their ranks: where a mesh does not, the number of a part is its place
// in the group for some ways of sharding and the mesh's coordinate for others.
void check_order(const Placements& placements, const RankMesh& mesh) {
    for (std::size_t d = 0; d < mesh.ascending.size(); ++d) {
        if (placements.on[d].is_shard && !mesh.ascending[d]) {
            throw Error(ErrorCode::unsupported,
                        "it is sharded over dimension " + std::to_string(d) + " of the mesh " +
                            mesh_text(mesh) +
                            ", along which the ranks do not ascend: the file does not tell which "
                            "part each of them holds; if the parts lie in the order of the ranks, "
                            "say the mesh by hand: --mesh_dim_names and --mesh_shape");
        }
    }
}

// The shape is pickled twice: as the tensor's own and in TensorMeta(shape, stride, dtype).
void check_meta(const PickleValue& spec, const Subclass& value) {
    const PickleValue* const meta = spec.attribute("tensor_meta");
    const auto parts = meta == nullptr ? std::span<const PickleValue* const>() : meta->arguments();
    if (parts.empty()) {
        return;
    }
    const auto shape = short_counts(*parts[0], "the shape in a DTensorSpec");
    if (shape != value.shape) {
        throw Error(ErrorCode::mismatch, "it has two global shapes: " + shape_text(value.shape) +
                                             ", and " + shape_text(shape) + " in its DTensorSpec");
    }
}

}  // namespace

DTensorReader::DTensorReader(const TorchFile& file, const RankFile& rank, const Mesh& by_hand)
    : file_(file), rank_(rank) {
    if (!by_hand.shape.empty()) {
        by_hand_ = mesh_by_hand(by_hand, rank.rank, rank.world);
    }
}

void DTensorReader::check_rank(const RankMesh& mesh) const {
    if (mesh.rank && *mesh.rank != rank_.rank) {
        throw Error(ErrorCode::mismatch,
                    "its mesh was saved by rank " + std::to_string(*mesh.rank) + " (at " +
                        shape_text(mesh.coordinate) + " of " + mesh_text(mesh) +
                        "), which belongs into " + file_name({rank_.world, *mesh.rank}) +
                        "; the file is named " + file_name(rank_) +
                        ": files were renamed or mixed up");
    }
}

const RankMesh& DTensorReader::mesh_in_file(const PickleValue& mesh) {
    const auto [at, is_new] = known_.try_emplace(&mesh);
    if (is_new) {
        if (known_.size() > kMostMeshes) {
            throw Error(ErrorCode::unsupported, "the file holds more than " +
                                                    std::to_string(kMostMeshes) + " DeviceMeshes");
        }
        at->second = read_mesh(file_, mesh);
        check_rank(at->second);
    }
    return at->second;
}

const RankMesh& DTensorReader::mesh_of(const PickleValue& spec, std::size_t n_placements) {
    const PickleValue& value = required(spec.attribute("mesh"), "mesh");
    if (!by_hand_) {
        return mesh_in_file(value);
    }
    if (by_hand_->extents.size() == n_placements) {
        return *by_hand_;
    }
    const auto names = mesh_dim_names(value);
    if (names.size() != n_placements) {
        throw Error(ErrorCode::mismatch,
                    "it is placed over " + std::to_string(n_placements) +
                        " mesh dimension(s) without names, the mesh given by hand has " +
                        std::to_string(by_hand_->extents.size()));
    }
    const auto [at, is_new] = parts_.try_emplace(names);
    if (is_new) {
        at->second = part_of_mesh(*by_hand_, names);
    }
    return at->second;
}

const std::string& DTensorReader::text_of(const RankMesh& mesh) {
    const auto [at, is_new] = mesh_texts_.try_emplace(&mesh);
    if (is_new) {
        at->second = mesh_text(mesh);
        if (texts_.size() < kMostTexts) {
            texts_.insert(at->second);
        }
    }
    return at->second;
}

catalogue::Tensor DTensorReader::read(const Subclass& value) {
    const PickleValue& spec = required(find_in_state(*value.state, "_spec"), "_spec");
    const auto local =
        file_.tensor(required(find_in_state(*value.state, "_local_tensor"), "local tensor"));
    if (!local) {
        throw Error(ErrorCode::corrupt, "the local part of a DTensor is no tensor");
    }
    volume_of(value.shape, "a tensor's global shape");
    const Placements placements = read_placements(spec, value.shape.size());
    const RankMesh& mesh = mesh_of(spec, placements.on.size());
    if (mesh.extents.size() != placements.on.size()) {
        throw Error(ErrorCode::corrupt, "it has the placements " + placements_text(placements) +
                                            " over the mesh " + mesh_text(mesh));
    }
    check_meta(spec, value);
    check_order(placements, mesh);
    const auto runs = owned(value.shape, cuts_of(placements, mesh));
    check_local(*local, runs, value, placements, mesh);
    catalogue::Tensor tensor;
    tensor.dtype = local->dtype;
    tensor.shape = value.shape;
    tensor.pieces = pieces_of(*local, runs);
    tensor.placement = placements_text(placements) + " over the mesh " + text_of(mesh);
    return tensor;
}

}  // namespace shardweld::formats::fsdp

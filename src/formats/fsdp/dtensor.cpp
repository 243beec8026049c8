#include "dtensor.hpp"

#include <span>
#include <utility>

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "shardweld/error.hpp"

#include "mesh.hpp"
#include "placements.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr std::size_t kFewestArguments = 8;  // newer versions append some

}  // namespace

std::optional<Subclass> subclass_of(const PickleValue& value) {
    const PickleValue& call = without_parameter(value);
    const PickleValue* const function = call.callee();
    const auto arguments = call.arguments();  // function, type, its arguments, state
    if (function == nullptr || !is_subclass_call(function->class_name()) || arguments.size() < 3 ||
        arguments[0]->class_name() != "torch._utils _rebuild_wrapper_subclass") {
        return std::nullopt;
    }
    const auto made_of = arguments[2]->elements();
    if (arguments.size() != 4 || made_of.size() < kFewestArguments) {
        throw Error(ErrorCode::corrupt, "a tensor subclass is pickled with " +
                                            std::to_string(arguments.size()) + " and " +
                                            std::to_string(made_of.size()) +
                                            " arguments, expected 4 and at least 8");
    }
    return Subclass{arguments[1], made_of[1], short_counts(*made_of[2], "a tensor's global shape"),
                    arguments[3]};
}

namespace {

constexpr std::size_t kMostMeshesTold = 8;
constexpr std::size_t kMostMeshes = 1024;  // each may list as many ranks as there are
constexpr std::size_t kMostHoldings = 1024;

const PickleValue& required(const PickleValue* value, std::string_view what) {
    if (value == nullptr) {
        throw Error(ErrorCode::corrupt, "a DTensor has no " + std::string(what));
    }
    return *value;
}

// torch's process groups sort their ranks: where a mesh does not, the number of a part is its place
// in the group for some ways of sharding and the mesh's coordinate for others.
void check_order(const Placements& placements, const RankMesh& mesh) {
    for (const std::size_t d : indices(mesh.ascending)) {
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

}  // namespace

Holding make_holding(const Lying& tensor) {
    check_order(tensor.placements, *tensor.mesh);
    Holding holding;
    holding.runs = owned(tensor.shape, cuts_of(tensor.placements, *tensor.mesh));
    for (const Runs& of_dim : holding.runs) {
        holding.local_shape.push_back(length_of(of_dim));
    }
    holding.placement =
        placements_text(tensor.placements) + " over the mesh " + mesh_text(*tensor.mesh);
    return holding;
}

// FSDP2 on top of another way of sharding leaves ranks without elements with [0, 0] for, say, [3,
// 0].
void require_local(const StoredTensor& local, const Holding& holding, const Lying& tensor,
                   std::string_view more) {
    const bool both_empty = local.shape.size() == holding.local_shape.size() &&
                            contains(local.shape, 0) && contains(holding.local_shape, 0);
    if (local.shape != holding.local_shape && !both_empty) {
        throw Error(ErrorCode::mismatch,
                    "its local tensor is " + shape_text(local.shape) + ", but " +
                        placements_text(tensor.placements) + " of " + shape_text(tensor.shape) +
                        " over the mesh " + mesh_text(*tensor.mesh) + " gives " +
                        shape_text(holding.local_shape) + " to the rank at " +
                        shape_text(tensor.mesh->coordinate) + std::string(more));
    }
}

DTensorReader::DTensorReader(const TorchFile& file, const RankFile& rank, const Mesh& by_hand)
    : file_(file), rank_(rank) {
    if (!by_hand.shape.empty()) {
        by_hand_ = mesh_by_hand(by_hand, rank.rank, rank.world);
    }
}

// The shape is pickled twice: as the tensor's own and in TensorMeta(shape, stride, dtype).
void DTensorReader::check_meta(const PickleValue& spec) {
    const PickleValue* const meta = spec.attribute("tensor_meta");
    const auto parts = meta == nullptr ? PickleValues() : meta->arguments();
    if (parts.empty()) {
        return;
    }
    read_short_counts(*parts[0], "the shape in a DTensorSpec", shape_in_spec_);
    require_equal("its global shape", tensor_.shape, "the tensor", shape_in_spec_,
                  "its DTensorSpec");
}

void DTensorReader::check_rank(const RankMesh& mesh) const {
    if (mesh.rank && *mesh.rank != rank_.rank) {
        throw Error(ErrorCode::mismatch,
                    "its mesh was saved by rank " + std::to_string(*mesh.rank) + " (at " +
                        shape_text(mesh.coordinate) + " of " + mesh_text(mesh) +
                        "), which belongs in " + file_name({rank_.world, *mesh.rank, rank_.stem}) +
                        "; the file is named " + file_name(rank_),
                    "give each file the name that it was saved with");
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
        knows_rank_ = knows_rank_ || at->second.rank.has_value();
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
                    "it is placed over " + counted(n_placements, "mesh dimension") +
                        " without names, the mesh on the command line has " +
                        std::to_string(by_hand_->extents.size()),
                    "give as many: --mesh_dim_names and --mesh_shape");
    }
    const auto [at, is_new] = parts_.try_emplace(names);
    if (is_new) {
        at->second = part_of_mesh(*by_hand_, names);
    }
    return at->second;
}

std::vector<MeshDims> DTensorReader::meshes() const {
    return collect_list(meshes_, [](const auto& one) { return one.second; });
}

const Holding& DTensorReader::holding_of(const Lying& tensor) {
    if (auto* const known = find_value(holdings_, tensor)) {
        return *known;
    }
    Holding holding = make_holding(tensor);
    if (meshes_.size() < kMostMeshesTold) {
        meshes_.emplace(mesh_text(*tensor.mesh), dims_of(*tensor.mesh));
    }
    for (const Runs& of_dim : holding.runs) {
        n_runs_ += of_dim.size();
    }
    if (holdings_.size() == kMostHoldings || n_runs_ > kMostRuns) {
        holdings_.clear();
        n_runs_ = 0;
    }
    return holdings_.emplace(tensor, std::move(holding)).first->second;
}

Tensor DTensorReader::read(Subclass value) {
    const PickleValue& spec = required(value.state->find_attribute("_spec"), "_spec");
    const PickleValue& local =
        required(value.state->find_attribute("_local_tensor"), "local tensor");
    if (!file_.read_tensor(local, local_)) {
        refuse_value(local);
    }
    volume_of(value.shape, "a tensor's global shape");
    tensor_.shape = value.shape;
    read_placements(spec, value.shape.size(), tensor_.placements);
    const std::size_t n_placements = tensor_.placements.on.size();
    tensor_.mesh = &mesh_of(spec, n_placements);
    if (tensor_.mesh->extents.size() != n_placements) {
        throw Error(ErrorCode::corrupt, "it has the placements " +
                                            placements_text(tensor_.placements) +
                                            " over the mesh " + mesh_text(*tensor_.mesh));
    }
    check_meta(spec);
    const Holding& holding = holding_of(tensor_);
    require_local(local_, holding, tensor_,
                  "; if that mesh is wrong, say it by hand: --mesh_dim_names and --mesh_shape");
    Tensor tensor;
    tensor.dtype = local_.dtype;
    tensor.pieces = pieces_of(local_, holding.runs);
    tensor.shape = std::move(value.shape);
    tensor.placement = holding.placement;
    return tensor;
}

}  // namespace shardweld::formats::fsdp

// Tensors that are no plain tensors, as torch pickles its wrapper classes, and of DTensors the
// elements of the global tensor that a rank's local tensor holds.
// Source: torch 2.15 torch/distributed/tensor/_api.py, _dtensor_spec.py; torch/_tensor.py
// (_rebuild_from_type_v2), torch/_utils.py (_rebuild_wrapper_subclass).
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

#include "mesh.hpp"
#include "placements.hpp"
#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// A pickled wrapper: its class, its global shape and what it was built from.
struct Subclass {
    const PickleValue* type = nullptr;
    const PickleValue* dtype = nullptr;  ///< as a global
    std::vector<Index> shape;
    const PickleValue* state = nullptr;  ///< for find_attribute
};

/// `value` as a wrapper, parameters around it taken off; nullopt when it is none. Error(corrupt)
/// when it is one but malformed.
std::optional<Subclass> subclass_of(const PickleValue& value);

/// How a tensor lies on a mesh.
struct Lying {
    std::vector<Index> shape;
    Placements placements;
    const RankMesh* mesh = nullptr;
    friend auto operator<=>(const Lying&, const Lying&) = default;
};

/// What a rank holds of all tensors that lie alike.
struct Holding {
    std::vector<Runs> runs;
    std::vector<Index> local_shape;
    std::string placement;  ///< for people
};

/// Error(unsupported) where the ranks along a dimension that cuts do not ascend.
Holding make_holding(const Lying& tensor);
/// Error(mismatch) where `local` has not the shape that a rank holds; `more` ends the message.
void require_local(const StoredTensor& local, const Holding& holding, const Lying& tensor,
                   std::string_view more = "");

class DTensorReader {
  public:
    /// `by_hand`: without a shape, the meshes in the file count. Error(usage) when it does not fit
    /// the world.
    DTensorReader(const TorchFile& file, const RankFile& rank, const Mesh& by_hand);

    /// A DTensor with its pieces in this file; without a name. Error(mismatch) when the local shape
    /// is not what the placements give, or the mesh says that the file is another rank's;
    /// Error(unsupported) for partial sums; Error(corrupt) when malformed.
    [[nodiscard]] Tensor read(Subclass value);

    /// Whether a mesh of the file tells its rank: it is that of the file's name then.
    [[nodiscard]] bool knows_rank() const { return knows_rank_; }

    /// The meshes met, in the order of their texts.
    [[nodiscard]] std::vector<MeshDims> meshes() const;

  private:
    const RankMesh& mesh_in_file(const PickleValue& mesh);
    const RankMesh& mesh_of(const PickleValue& spec, std::size_t n_placements);
    const Holding& holding_of(const Lying& tensor);
    void check_rank(const RankMesh& mesh) const;
    void check_meta(const PickleValue& spec);

    const TorchFile& file_;
    RankFile rank_;
    std::optional<RankMesh> by_hand_;
    std::map<const PickleValue*, RankMesh> known_;  // one object serves many tensors
    bool knows_rank_ = false;
    std::map<std::vector<std::string>, RankMesh> parts_;  // of by_hand_, by the names of their dims
    std::map<std::string, MeshDims> meshes_;              // by their texts
    std::map<Lying, Holding> holdings_;  // a model's layers repeat a few shapes, placed alike
    std::size_t n_runs_ = 0;             // in all of them

    // What is read of one tensor; members, so that their memory is used again.
    Lying tensor_;
    StoredTensor local_;
    std::vector<Index> shape_in_spec_;
};

}  // namespace shardweld::formats::fsdp

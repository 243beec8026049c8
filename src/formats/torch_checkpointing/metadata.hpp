// metadata.pkl of torch_checkpointing: which items a save has, in which file each rank wrote its
// part of them, and how each tensor lies on the ranks.
// Source: torch_checkpointing 0.1.1 distributed_metadata.py, dtensor_metadata.py,
// checkpoint_layout.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "formats/fsdp/mesh.hpp"
#include "formats/fsdp/placements.hpp"

namespace shardweld::formats::torch_checkpointing {

inline constexpr const char* kMetadataFile = "metadata.pkl";
inline constexpr Index kLargestWorld = 1 << 20;  ///< far above any job

/// A grid of ranks, which need not be all of the job.
struct SavedMesh {
    std::vector<Index> extents;      ///< outermost first
    std::vector<std::string> names;  ///< as many as extents, or none
    std::vector<Index> ranks;        ///< row-major, each once
};

/// How the ranks of one mesh hold a tensor.
struct Placing {
    std::vector<Index> shape;  ///< of the whole
    DType dtype = DType::f32;
    fsdp::Placements placements;
    std::uint32_t mesh = 0;  ///< index into Saved::meshes
};

/// What the trainer saved under one name: the model, its optimizer.
struct SavedItem {
    std::map<Index, std::string> files;  ///< by rank, below the directory
    /// By path (formats/dcp/model_selection.hpp, path_name), the item's name first. Several where
    /// ranks of several meshes hold it.
    std::map<std::string, std::vector<Placing>> tensors;
};

/// All that is read of a metadata.pkl.
struct Saved {
    Index world = 0;
    std::vector<SavedMesh> meshes;
    std::map<std::string, SavedItem> items;

    /// A mesh as a rank sees it; nullopt where the rank is not in it.
    [[nodiscard]] std::optional<fsdp::RankMesh> seen_by(Index rank, std::uint32_t mesh) const;
};

/// ITEM_RANK.pt, where nothing else is said.
std::string file_of_rank(const std::string& item, Index rank);

/// nullopt where the file is a pickle of something else. Error(corrupt) for one that is no pickle
/// or contradicts itself, Error(unsupported) for other versions and other ways to lie on ranks;
/// all name the file, and the tensor.
std::optional<Saved> read_saved(const fs::path& file);

}  // namespace shardweld::formats::torch_checkpointing

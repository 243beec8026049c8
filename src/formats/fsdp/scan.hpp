// One rank's file of an FSDP checkpoint, its entries as parts of global tensors, and what the
// rank's training state says of the save: steps of its scheduler and optimizer. Source: verl 0.9.1
// verl/utils/checkpoint/fsdp_checkpoint_manager.py (save_checkpoint).
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"
#include "formats/typed_scan.hpp"

#include "mesh.hpp"
#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// What only the joining of ranks' files makes use of.
struct RankContent {
    std::vector<MeshDims> meshes;    ///< over which the file's tensors lie
    std::string unread_state;        ///< why training state was not read; "" if nothing is wrong
    catalogue::Catalogue optimizer;  ///< its file, where a state is asked for (optimizer_scan.hpp)

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.meshes, self.unread_state, self.optimizer);
    };
};
using RankScan = ScanOf<RankContent>;

/// DTensors and ShardedTensors as `tensors` of their global shape with the pieces of this file
/// (none where the rank holds nothing); plain tensors as `shards` of their local shape with the
/// rank's coordinates. Adds the statements of the rank's training state, as far as its files lie
/// beside its model file; one that cannot be read is no part of the model. Errors as of
/// DTensorReader and read_sharded_tensor; Error(unsupported) for flat parameters and other tensor
/// classes, Error(mismatch) when two names become one without their wrappers. Local.
RankScan scan_rank(const Location& location, const std::string& file);

/// Values of a rank's file by the names of what they belong to, which outlive the call.
using Entries = std::vector<std::pair<std::string_view, const PickleValue*>>;

/// Adds the entries of `file` to `out` as tensors and shards, as scan_rank does. Errors as there.
void read_entries(const TorchFile& file, const RankFile& rank, const Mesh& by_hand,
                  const Entries& entries, catalogue::Catalogue& out);

}  // namespace shardweld::formats::fsdp

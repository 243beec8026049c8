// One rank's file of an FSDP checkpoint, its entries as parts of global tensors, and what the
// rank's training state says of the save: steps of its scheduler and optimizer. No moments are
// read. Source: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py (save_checkpoint).
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"
#include "formats/typed_scan.hpp"

#include "mesh.hpp"
#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// What only the joining of ranks' files makes use of.
struct RankContent {
    std::vector<MeshDims> meshes;  ///< over which the file's tensors lie
    std::string unread_state;      ///< why training state was not read; "" if nothing is wrong

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.meshes, self.unread_state);
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

}  // namespace shardweld::formats::fsdp

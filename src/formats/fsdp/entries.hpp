// The entries of one rank's file as parts of global tensors.
// Source: torch 2.15 torch/distributed/tensor/_api.py, torch/distributed/_shard/sharded_tensor.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

#include "mesh.hpp"
#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// Values by the names of what they belong to, which outlive the call.
using Entries = std::vector<std::pair<std::string_view, const PickleValue*>>;

/// The meshes and the rank that the tensors of one file tell of.
struct EntriesRead {
    std::vector<MeshDims> meshes;  ///< over which the tensors lie
    bool knows_rank = false;       ///< a tensor told the rank, and it is that of the file's name
};

/// Adds DTensors and ShardedTensors as `tensors` of their global shape with the pieces of this file
/// (none where the rank holds nothing), plain tensors as `shards` of their local shape with the
/// rank's coordinates, and rows of what is left aside. Errors as of DTensorReader and
/// read_sharded_tensor; Error(unsupported) for flat parameters and other tensor classes,
/// Error(mismatch) when two names become one without their wrappers.
EntriesRead read_entries(const TorchFile& file, const RankFile& rank, const Mesh& by_hand,
                         const Entries& entries, Catalogue& out);

}  // namespace shardweld::formats::fsdp

// One rank's file of an FSDP checkpoint, its entries as parts of global tensors, and what the
// rank's training state says of the save: steps of its scheduler and optimizer. Source: verl 0.9.1
// verl/utils/checkpoint/fsdp_checkpoint_manager.py (save_checkpoint).
#pragma once

#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/format.hpp"
#include "formats/typed_scan.hpp"

#include "mesh.hpp"

namespace shardweld::formats::fsdp {

/// What only the joining of ranks' files makes use of.
struct RankContent {
    std::vector<MeshDims> meshes;  ///< over which the file's tensors lie
    std::string unread_state;      ///< why training state was not read; "" if nothing is wrong
    Catalogue optimizer;           ///< its file, where a state is asked for (optimizer_scan.hpp)
};
using RankScan = ScanOf<RankContent>;

/// The file's entries (entries.hpp). Adds the statements of the rank's training state, as far as
/// its files lie beside its model file; one that cannot be read is no part of the model, unless a
/// state is asked for. Local.
RankScan scan_rank(const Location& location, const std::string& file);

}  // namespace shardweld::formats::fsdp

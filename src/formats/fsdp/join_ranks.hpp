// All ranks' files together: global tensors, each element once, copies behind their originals.
// Knows catalogues only; nothing of pickles or directories.
#pragma once

#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"

#include "scan.hpp"

namespace shardweld::formats::fsdp {

/// `scans`, one for each rank file in the order of ranks, become the tensors, shards, files and
/// ignored rows of `out`. `missing`: names of the rank files that are not there; they are forgiven
/// with a note when the others hold every element. Boxes that several ranks hold are replicas, the
/// lowest rank's comes first. Error(not_found) when a missing file is needed; Error(mismatch) when
/// ranks disagree on a tensor's dtype, shape or kind, one lacks it, or its pieces overlap or leave
/// elements out.
void join_ranks(std::vector<RankScan> scans, const std::vector<std::string>& missing,
                catalogue::Catalogue& out);

}  // namespace shardweld::formats::fsdp

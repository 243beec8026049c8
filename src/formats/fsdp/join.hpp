// The files of all ranks put together: one model, and the states of its optimizer.
#pragma once

#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"

#include "scan.hpp"

namespace shardweld::formats::fsdp {

/// The scans of rank files, in the order of ranks, become the tensors, shards, files and ignored
/// rows of `out`, those of the optimizer's files its states and, behind the model's, its files.
/// `missing`: names of the model's files that are not there; they are forgiven with a note when the
/// others hold every element. Error(not_found) when a missing file is needed; Error(mismatch) when
/// ranks disagree on a tensor's dtype, shape or kind, one lacks it, its pieces overlap or leave
/// elements out, or one rank's file is a copy of another's. Pure.
void join_files(std::vector<RankScan> scans, const std::vector<std::string>& missing,
                Catalogue& out);

}  // namespace shardweld::formats::fsdp

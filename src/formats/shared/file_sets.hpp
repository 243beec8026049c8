// Sets of shard files: files that number themselves ("model-00002-of-00003.safetensors"), and files
// beside an index that does not name them.
#pragma once

#include <string>
#include <vector>

#include "formats/format.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats {

/// All files of every set that `files` are of must be among them. Sets count from 1, or from 0
/// where there is a 0. Error(not_found) naming those that are not.
void require_whole_sets(const std::vector<std::string>& files);

/// Puts a row among `out`'s ignored for each of the location's neighbours that is among `files` and
/// none of `named`. Files without content are passed over: torch's writer makes one for a rank that
/// has nothing to save (torch 2.15, torch/distributed/checkpoint/filesystem.py). Pure.
void note_unnamed(const Location& location, const std::vector<std::string>& files,
                  const std::vector<std::string>& named, catalogue::Catalogue& out);

/// Makes one row of those, with a warning `unreferenced_files` that names the files. Pure.
void tell_unnamed(catalogue::Catalogue& catalogue);

}  // namespace shardweld::formats

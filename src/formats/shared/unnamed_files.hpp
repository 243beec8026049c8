// Shard files beside an index that does not name them: of an earlier save into the same directory,
// or copied together. Knows names and sizes; opens none.
#pragma once

#include <string>
#include <vector>

#include "formats/format.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats {

/// Puts a row among `out`'s ignored for each of the location's neighbours that is among `files` and
/// none of `named`. Files without content are passed over: torch's writer makes one for a rank that
/// has nothing to save (torch 2.15, torch/distributed/checkpoint/filesystem.py). Pure.
void note_unnamed(const Location& location, const std::vector<std::string>& files,
                  const std::vector<std::string>& named, catalogue::Catalogue& out);

/// Makes one row of those, with a warning `unreferenced_files` that names the files. Pure.
void tell_unnamed(catalogue::Catalogue& catalogue);

}  // namespace shardweld::formats

// Where symbolic links of a directory from elsewhere lead.
// Knows paths, and the Hub's cache, whose snapshots are links; nothing of what the files are.
#pragma once

#include <optional>

#include "core/path.hpp"

namespace shardweld::io {

/// Where `path` leads when links take it out of `root`, both resolved; nullopt when it stays
/// inside, is in the same repository of the Hub's cache (models--*/snapshots/REVISION ->
/// models--*/blobs), or leads nowhere.
std::optional<fs::path> leads_out_of(const fs::path& path, const fs::path& root);

/// The directory that holds `end` and what belongs with it: `root`, or the cached repository of the
/// snapshot that root is; "" where it lies in neither. Both canonical. Pure.
fs::path home_of(const fs::path& end, const fs::path& root);

}  // namespace shardweld::io

// Files below a directory that came from elsewhere, opened so that nothing in it leads out.
#pragma once

#include <optional>

#include "core/path.hpp"

namespace shardweld::io {

class InputFile;

/// Opens for reading, as InputFile::open does, what lies at `relative` below a directory's
/// descriptor; a link on the way or a ".." is an error, even if it appears meanwhile. By
/// openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, Linux 5.6), or where the kernel or a container
/// does not have that by walk_beneath. Local. -1: errno says why not (ELOOP, EXDEV, ENOENT...).
int open_beneath(int directory, const fs::path& relative);

/// Opens it one directory after the other.
int walk_beneath(int directory, const fs::path& relative);

/// The file that `path` leads to by links that stay in `root` or in the same repository of the
/// Hub's cache (links.hpp). Where it leads is settled once; what is opened lies there. Local.
/// Errors as InputFile::open; Error(io) where it leads elsewhere or is made to meanwhile: whoever
/// may say more asks leads_out_of first.
InputFile open_within(const fs::path& path, const fs::path& root);

/// Where `path` leads when links take it out of `root`, both resolved; nullopt when it stays
/// inside, is in the same repository of the Hub's cache (models--*/snapshots/REVISION ->
/// models--*/blobs), or leads nowhere.
std::optional<fs::path> leads_out_of(const fs::path& path, const fs::path& root);

/// The directory that holds `end` and what belongs with it: `root`, or the cached repository of the
/// snapshot that root is; "" where it lies in neither. Both canonical. Pure.
fs::path home_of(const fs::path& end, const fs::path& root);

}  // namespace shardweld::io

// What is said where a checkpoint is looked for and something else is found: another format than
// the one asked for, another program's, none, or two.
#pragma once

#include "formats/shared/directory_listing.hpp"

#include "format.hpp"

namespace shardweld::formats {

/// The paths of what lies below a directory, "a, b".
std::string paths_text(const fs::path& directory, const std::vector<std::string>& below);

/// Error(usage) for what no directory could make right, and where there is none; Error(not_found)
/// where there is nothing, with a word on the Hub where the path looks like a name there.
void require_sensible(const JobInput& request);

/// Whether what was found in a directory, whose listing this is, is what was meant: where a backend
/// was asked for, false for files of a format that is tried before its own and knows more of them
/// (Megatron's torch_dist is also a DCP checkpoint). Error(usage) where none was asked for and the
/// directory holds a checkpoint of another format in other files.
bool is_meant_one(const Location& found, const Listing& listing, bool is_automatic);

/// Refuses directories that are no sharded checkpoint of the format asked for, whatever lies below
/// them: those that another format reads, Error(usage), and finished models.
void refuse_others(const fs::path& directory, const Listing& listing, const JobInput& request);

/// Refuses a directory in which and below which nothing was found. Error(unsupported) where its
/// names, or those one level below, give away what it is; Error(not_found), which names the
/// checkpoints `below`.
[[noreturn]] void refuse_unknown(const fs::path& directory, const Listing& listing,
                                 const JobInput& request, const std::vector<std::string>& below);

/// locate, but for what is said of older saves where it fails.
Location locate_checkpoint(const JobInput& request);

/// Error(not_found) where the trainer says that the save in `directory`, or the one it is part of,
/// did not end.
void require_finished(const fs::path& directory);

}  // namespace shardweld::formats

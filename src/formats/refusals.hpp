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
void require_sensible(const InputRequest& request);

/// Whether the files are those of another format, which is tried before this one and knows more of
/// them: Megatron's torch_dist is also a DCP checkpoint.
bool belongs_to_another(const Location& found);

/// Error(usage) when a directory holds a checkpoint of another format than the one it was found to
/// be, in other files.
void refuse_another(const Location& found);

/// Refuses directories that are no sharded checkpoint of the format asked for, whatever lies below
/// them: those that another format reads, Error(usage), and finished models.
void refuse_others(const fs::path& directory, const Listing& listing, const InputRequest& request);

/// Refuses a directory in which and below which nothing was found. Error(unsupported) where its
/// names, or those one level below, give away what it is; Error(not_found), which names the
/// checkpoints `below`.
[[noreturn]] void refuse_unknown(const fs::path& directory, const Listing& listing,
                                 const InputRequest& request,
                                 const std::vector<std::string>& below);

/// locate, but for what is said of older saves where it fails.
Location locate_checkpoint(const InputRequest& request);

/// Error(not_found) where the trainer says that the save in `directory`, or the one it is part of,
/// did not end.
void require_finished(const fs::path& directory);

}  // namespace shardweld::formats

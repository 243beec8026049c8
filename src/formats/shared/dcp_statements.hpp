// What `.metadata` says of a save and of its files, as statements.
// Knows pieces and their places; nothing of names.
#pragma once

#include <string>

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats {

/// The iteration in the name of the directory that was saved to, if it has one. `index`: the file
/// that says so.
void add_save_name(const std::string& checkpoint_id, const std::string& index,
                   catalogue::Catalogue& out);

/// Of each file that its items are in the index, and what tells them from those of other files:
/// they are held against the index when they are opened, and a file that has others in their places
/// is refused then.
void add_likenesses(const std::string& index, catalogue::Catalogue& out);

}  // namespace shardweld::formats

// The SHA-256 sums that a save lists of its files, held against the files.
// Knows files and ranks; which file has the list, the formats know.
#pragma once

#include <vector>

#include "app/report/file_hashes.hpp"
#include "app/report/session.hpp"

#include "survey.hpp"

namespace shardweld::app {

/// Collective. Each file is read by one rank that sees it: all of the list where the run reads the
/// weights, else those that are no shards; none under --check_crc off. Adds to the location what
/// was found right, as a statement of each file and a note, and returns it. Error(not_found) naming
/// files that no rank sees, Error(corrupt) naming those of another sum.
std::vector<FileEntry> check_listed_sums(Session& session, FoundCheckpoint& found);

}  // namespace shardweld::app

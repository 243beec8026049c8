// What lies beside the files that a format reads: nothing in a checkpoint's directory is passed
// over in silence. Opens nothing.
#pragma once

#include <string>
#include <vector>

#include "catalogue_words.hpp"
#include "format.hpp"

namespace shardweld::formats {

/// Everything in the location's directory and below it, and on the levels between it and `given`
/// (there nothing is looked into), but for what the format scans, links to nothing and special
/// files. Where a link of the listing leads inside it counts once. Shards have a size of 0: it is
/// told where they are opened. Natural order. Local.
std::vector<Neighbour> look_around(const fs::path& given, const Location& location);

/// Puts a row among `out`'s ignored for all neighbours that are not read, by what their names
/// mean: to the format, or to any. Those that could hold weights of the model are a warning
/// `weights_left_aside`. Pure.
void account_for_neighbours(const Location& location, Catalogue& out);

/// What lies in the location's directory and may hold weights beside those that were read: files
/// that nothing names, adapters, models made of the same save. Natural order. Pure.
std::vector<std::string> weights_beside(const Location& location, const Catalogue& read);

}  // namespace shardweld::formats

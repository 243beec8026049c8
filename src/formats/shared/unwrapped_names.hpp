// The tensors of a catalogue under the names they have in the model: below the prefix that was
// asked for, without the wrappers of training.
// Knows how catalogues hold names; how wrappers are spelled is module_names'.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "catalogue/catalogue.hpp"

namespace shardweld::formats {

/// Parts the keys of nested dictionaries in a name (ASCII's unit separator: keys hold dots
/// themselves).
inline constexpr char kKeySeparator = '\x1f';

/// The path as people write it: "model.layers.0.weight".
std::string dotted(std::string_view path);

/// Keeps those tensors and shards of all catalogues whose names, with or without wrappers, lie
/// below the prefix, and strips it; counts the others as ignored. Separators become dots.
/// Error(not_found) listing what there is where nothing lies below it.
void keep_below(std::string_view prefix, std::span<catalogue::Catalogue> catalogues);

/// Gives tensors and shards their names without wrappers and without what all of them have in front
/// of PEFT's prefix, with a note on that, and sorts the tensors. Doing so again changes nothing.
/// Error(mismatch) naming both where two become one, or where only some have the same in front of
/// PEFT's prefix.
void remove_wrappers(catalogue::Catalogue& catalogue);

}  // namespace shardweld::formats

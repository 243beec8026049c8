// An adapter that spells the names of its base's modules otherwise than the base that is given: it
// was trained with the class of the text model alone, or with an older class of the family.
#pragma once

#include "model.hpp"

namespace shardweld::app {

/// Renames the factors' modules as the base has them, where some beginning of theirs stands for one
/// of the base's and no other way leads to modules of the base for all; gives what it did. PEFT's
/// names only.
std::vector<Respelling> take_base_names(const HeldModel& prepared, catalogue::Catalogue& catalogue);

/// A module's path as the adapter has it, by which its settings are looked up.
std::string original_path(const std::vector<Respelling>& respelled, const std::string& path);

}  // namespace shardweld::app

// Several directories read in one run: the files of one counted behind those of another.
// Knows surveys; nothing of what becomes of their tensors.
#pragma once

#include "survey.hpp"

namespace shardweld::app {

/// Puts the files of `more`, and who sees them as what, behind those of `first`, under absolute
/// names. Both catalogues have the list of all, and the pieces of `more` name their files there.
void put_files_behind(Survey& first, Survey& more);

}  // namespace shardweld::app

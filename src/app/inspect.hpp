// `shardweld inspect`: what a checkpoint holds.
// Knows catalogues and how to show them; nothing of models' meaning.
#pragma once

#include <ostream>
#include <string>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"
#include "shardweld/mpi/comm.hpp"

#include "options.hpp"

namespace shardweld::app {

/// A catalogue as a table for people, or as JSON (fields are never renamed or removed).
std::string inspect_text(const formats::Location& location, const catalogue::Catalogue& catalogue);
std::string inspect_json(const formats::Location& location, const catalogue::Catalogue& catalogue);

/// Collective: the ranks find and read the checkpoint together, rank 0 prints to `out`. Returns the
/// exit code.
int inspect(mpi::Comm& comm, const Options& options, std::ostream& out);

}  // namespace shardweld::app

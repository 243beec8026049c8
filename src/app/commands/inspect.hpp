// `shardweld inspect`: what a checkpoint holds.
// Knows catalogues and how to show them; nothing of models' meaning.
#pragma once

#include <ostream>
#include <string>

#include "shardweld/mpi/comm.hpp"

#include "../cli/options.hpp"
#include "../survey/survey.hpp"

namespace shardweld::app {

/// A checkpoint as a table for people, or as JSON (fields are never renamed or removed).
std::string inspect_text(const Survey& survey);
std::string inspect_json(const Survey& survey);

/// Collective: the ranks find and read the checkpoint together, rank 0 prints to `out`. Returns the
/// exit code.
int inspect(mpi::Comm& comm, const Options& options, std::ostream& out);

}  // namespace shardweld::app

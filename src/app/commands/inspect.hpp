// `shardweld inspect`: what a checkpoint holds.
// Knows catalogues and how to show them; what a model is, family knows.
#pragma once

#include <ostream>
#include <string>

#include "shardweld/mpi/comm.hpp"

#include "../cli/options.hpp"
#include "../survey/survey.hpp"

namespace shardweld::app {

/// A checkpoint as JSON; fields are never renamed or removed.
std::string inspect_json(const Survey& survey);

/// Collective: the ranks find and read the checkpoint together, rank 0 prints to `out`; `log` shows
/// the progress. Returns the exit code.
int inspect(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log);

}  // namespace shardweld::app

// The last two steps of the main path, execute and publish: partial directories, journals, tensors,
// the files beside them, checks, and one rename for each output.
#pragma once

#include "mpi/free_run.hpp"
#include "shardweld/error.hpp"

#include "state.hpp"

namespace shardweld::app {

/// Collective. Takes up or makes the partial directories, with files of full size and a journal:
/// everything up to the last rename happens there, and their owner removes them when anything
/// fails, unless there is something to go on with.
void stage_outputs(const Run& run, Merge& merge);

/// Collective. The text of README.md, which the first rank's reports tell; "" where none is made.
std::string card_of(const Run& run, const Output& output);

/// Collective. Writes the tensors of all outputs and looks at what is written. Error(strict).
void write_tensors(const Run& run, Merge& merge, const mpi::WhyStop& why_stop);

/// Collective. Writes all that lies beside the tensors, and holds everything that was written
/// against what should have been.
void complete_outputs(const Run& run, Merge& merge, const mpi::WhyStop& why_stop);

/// Collective. Writes the reports that are kept with the models, and renames, the first output
/// last.
void publish_outputs(const Run& run, Merge& merge);

/// Local. After a failure: keeps what another run can go on with, and lets `error` say so. A
/// refusal to resume touches nothing. The first rank speaks for all.
void keep_for_later(const Run& run, const Merge& merge, Error& error);

/// Says what was made, in place of a line for each part.
void say_summaries(const Run& run);

}  // namespace shardweld::app

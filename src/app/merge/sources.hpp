// The first two steps of the main path, find and survey: the checkpoint, those that are mixed into
// it, the base of an adapter, and the small files of the model.
#pragma once

#include "state.hpp"

namespace shardweld::app {

/// Collective. Finds the checkpoints and the files of the model, which are right as far as they
/// show it themselves. Error as by find_checkpoint, read_model_files and check_model_files.
void find_inputs(const Run& run, Merge& merge);

/// Collective. Holds the sums that a save lists of its files against them.
void check_sums(const Run& run, Merge& merge);

/// Collective. Reads the metadata, and what of the model's files they ask for. The report and the
/// log say what was found. Errors as by read_checkpoint, read_model_files and require_config;
/// Error(usage) where a checkpoint with a base of its own is compared, Error(unsupported) where the
/// base has other names.
void read_inputs(const Run& run, Merge& merge);

}  // namespace shardweld::app

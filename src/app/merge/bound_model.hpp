// The third step of the main path, bind: surveyed checkpoints whose tensors are bound to their
// model, tied tensors settled, several mixed into one, and the forms in which it is written: codes
// and scales, llama.cpp's, and those of --also.
#pragma once

#include "state.hpp"

namespace shardweld::app {

/// Collective. A model for each output, bound to what was read, whose files, metadata and other
/// checkpoints move into them. Several checkpoints are bound one by one and mixed (--average,
/// --task_arithmetic). Errors as plan::bind, plan::mixed and plan::share_strips; Error(mismatch)
/// where tied tensors or integers of several checkpoints differ.
void bind_outputs(const Run& run, Merge& merge);

}  // namespace shardweld::app

// Checkpoints whose framework keeps LoRA factors beside its own weights, seen as those of a PEFT
// model: what becomes of an adapter (lora.hpp) needs to know PEFT's names only.
#pragma once

#include "model.hpp"

namespace shardweld::app {

/// prepare_model for a catalogue that may hold a framework's adapter: then all its tensors, but for
/// a base given with --base, get PEFT's names of the module tree, and the model is prepared for
/// these. Pure. Errors of prepare_model and plan::bind.
PreparedModel prepare_with_adapter(const ModelFiles& files, const ModelChoice& choice,
                                   catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

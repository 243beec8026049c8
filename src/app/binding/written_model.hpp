// A bound model as if it were written: what its config.json says then, and training checkpoints
// that are cut from its finished weights.
#pragma once

#include <cstdint>
#include <memory>

#include "app/family/model.hpp"
#include "app/settings/job.hpp"
#include "publish/config_edits.hpp"

namespace shardweld::app {

/// What the config.json of these targets has to say, which are the model's or were.
publish::Facts facts_of(const HeldModel& model, const plan::Targets& targets);

/// Whether a training checkpoint is cut from the model's weights because these are made first: a
/// LoRA adapter is folded into them, or they are stored as codes.
bool is_cut_from_model(const Job& job, const catalogue::Catalogue& catalogue);

/// The training checkpoint of `form`, like a template where there is one, with the bytes that it
/// would have if the model were written and then reshaped. Files of the model are numbered below
/// `n_files`. Factors stay with the model. Pure. Errors of prepare_model, plan::bind and
/// plan::recut.
HeldModel cut_from(const HeldModel& model, const std::string& form,
                   std::shared_ptr<const Checkpoint> like, std::uint32_t n_files);

}  // namespace shardweld::app

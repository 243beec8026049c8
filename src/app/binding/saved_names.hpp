// Names of a module tree that no recipe turns into those of the hub: transformers may give tensors
// other names or forms when it saves the model, and those are what engines look for.
#pragma once

#include "app/family/model.hpp"
#include "plan/binding.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// Whether the checkpoint has second names of tensors that save_pretrained writes once.
bool has_second_names(const HeldModel& prepared, const catalogue::Catalogue& catalogue);

/// Brings what is written of a module tree as it is stored in line with what transformers saves:
/// second names of a tensor go. Error(unsupported) listing tensors that it gives other names.
void follow_saved_form(const HeldModel& prepared, plan::Binding& binding);

}  // namespace shardweld::app

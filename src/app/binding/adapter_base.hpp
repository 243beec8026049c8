// The base of a LoRA adapter: what of it the adapter replaces, and whether the two fit together.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "adapters/peft_names.hpp"
#include "app/family/model.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// Makes lines of `recipe` optional for what was trained as a whole: the base need not hold it.
void need_not_hold(const plan::Targets& trained, const models::Symbols& symbols,
                   models::Recipe& recipe);

/// Puts modules that were trained as a whole in the place of the base's.
void put_in_place(plan::Binding trained, plan::Binding& base);

/// Adds padding and ignored tensors of what was bound apart and is not written.
void add_to_account(plan::Ledger& apart, plan::Ledger& ledger);

/// Rows that were trained of the embedding stand again under the head that is tied to it.
void join_tied_rows(const HeldModel& model, catalogue::Catalogue& adapter);

/// The rows of a vocabulary that the adapter has, and config.json does not; nullopt: no others.
std::optional<Index> grown_rows(const models::Config& config, const catalogue::Catalogue& adapter);

/// Warns of modules that the base does not have under their names, of which PEFT leaves factors out
/// without an error. `base_names`: its tensors, as adapters know them. Error(mismatch) for matrices
/// of other shapes.
void require_base_of(const std::vector<adapters::Module>& modules,
                     const std::set<std::string>& base_names, HeldModel& model);

}  // namespace shardweld::app

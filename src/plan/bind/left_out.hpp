// What a written form of a model (models::written_form) has no place for.
#pragma once

#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// Why the form does not have a logical tensor; null: it should.
const models::IgnoreRule* left_out(const models::Recipe& recipe, const std::string& logical);

/// Counts as ignored the stored tensors without a line, which the recipe lets pass (towers, other
/// heads). Error(unsupported) for those that it does not know.
void leave_out(std::vector<catalogue::Tensor>& others, const Model& model, Ledger& ledger);

}  // namespace shardweld::plan

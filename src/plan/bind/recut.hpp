// A model's tensors cut into the pieces of another form, together with what becomes of them.
#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// A model's targets as if they were stored: each whole, in a file of its own, which are counted
/// from `first_file` on.
std::vector<catalogue::Tensor> as_tensors(const std::vector<Target>& model,
                                          std::uint32_t first_file);

/// Makes targets that were bound to these tensors of what the model's own targets are made of:
/// their operands read what is stored, and folds come along in parts (Target::folded), so every
/// element is what it would be if the model were written and then read. Error(unsupported) for a
/// target that would mix what is stored in several types or has to be cast twice.
void recut(const std::vector<Target>& model, std::uint32_t first_file, std::vector<Target>& pieces);

}  // namespace shardweld::plan

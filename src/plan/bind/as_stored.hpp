// Tensors that are written under the names they are stored under, or under renamed ones.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layout/cover.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// Whether the recipe lets a tensor of that hub name pass without a line.
bool passes_unlisted(const models::Recipe& recipe, const std::string& name);

/// Whether a tensor passes. One without elements, as a module of zero shared experts has it, passes
/// whatever its name: no model depends on it.
bool passes_unlisted(const models::Recipe& recipe, const catalogue::Tensor& tensor);

/// Appends a target for each tensor. Those whose name is in `presumed` are to be compared with
/// their replicas in full. A warning lists tensors that no `pass` rule of the recipe covers.
void add_as_stored(std::vector<catalogue::Tensor> tensors, const std::set<std::string>& presumed,
                   const Model& model, const BindOptions& options, Binding& binding);

/// Gives a target, whose elements are counted, its type in the template, and the padding there.
/// Error(mismatch) where no cast leads from what is stored to that type.
void make_like(const OptionalBox<TensorPiece::InTemplate>& in_template, Target& target);

/// How `parts`, each inside the box of `wanted`, cover it: exact, gap or overlap.
/// Error(unsupported) naming `name` when there are too many parts to compare.
layout::CoverKind cover_by(const std::vector<layout::Patch>& parts, const layout::Patch& wanted,
                           const std::string& name);

}  // namespace shardweld::plan

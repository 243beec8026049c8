// Settings that a training job pickles beside its tensors: parameter groups of an optimizer, the
// fields of a scheduler.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalogue/optimizer.hpp"

#include "scalar_value.hpp"

namespace shardweld::formats {

/// A value as JSON text: numbers, flags, words, nothing, and lists and dictionaries of them, also
/// from tensors of one element; nullopt for everything else. Numbers that are no finite ones are
/// texts.
std::optional<std::string> json_text(const PickleValue& value, const ScalarReader& scalars);

/// All entries of a mapping that json_text has words for, but for those called "params".
catalogue::Settings settings_of(const PickleValue& mapping, const ScalarReader& scalars);

/// torch's `param_groups`, a list of mappings, without their parameters; empty for anything else.
std::vector<catalogue::ParameterGroup> groups_of(const PickleValue* list,
                                                 const ScalarReader& scalars);

/// The one number that all values are: the step of an optimizer. Error(unsupported) naming two
/// where they differ; nullopt for none.
std::optional<double> common_step(const std::vector<double>& steps);

/// The number that "step" is in each of the groups that have one.
std::vector<double> steps_of(const std::vector<catalogue::ParameterGroup>& groups);

}  // namespace shardweld::formats

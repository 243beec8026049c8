// Settings that a training job pickles beside its tensors: parameter groups of an optimizer, the
// fields of a scheduler.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/optimizer.hpp"

#include "scalar_value.hpp"

namespace shardweld::formats {

/// A value as JSON text: numbers, flags, words, nothing, and lists and dictionaries of them, also
/// from tensors of one element; nullopt for everything else. Numbers that are no finite ones are
/// texts.
std::optional<std::string> json_text(const PickleValue& value, const ScalarReader& scalars);

/// All entries of a mapping that json_text has words for, but for what names members.
catalogue::Settings settings_of(const PickleValue& mapping, const ScalarReader& scalars);

/// A setting of a group: json_text, and a text that is no setting of Adam's for those that it
/// computes with and there are no words for.
std::optional<std::string> group_setting(std::string_view name, const PickleValue& value,
                                         const ScalarReader& scalars);

/// torch's `param_groups`, a list of mappings, without their parameters; empty for anything else.
/// Error(corrupt) for a group of another kind.
std::vector<catalogue::ParameterGroup> groups_of(const PickleValue* list,
                                                 const ScalarReader& scalars);

}  // namespace shardweld::formats

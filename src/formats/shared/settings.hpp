// Settings that a training job pickles beside its tensors: parameter groups of an optimizer, the
// fields of a scheduler.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue_words.hpp"

#include "scalar_value.hpp"

namespace shardweld::formats {

/// How many values there may be in all groups' settings, or in a scheduler's: pickles that hold one
/// list many times have more than their bytes.
inline constexpr std::size_t kMostSettingValues = std::size_t{1} << 16U;
/// How many names a group, a scheduler or a dictionary in one of their settings may have: targets
/// write each setting for each parameter.
inline constexpr std::size_t kMostSettings = 1024;

/// A value as JSON text: numbers, flags, words, nothing, and lists of them and dictionaries with
/// names, also from tensors of one element; nullopt for everything else, and for what holds such.
/// Numbers that are no finite ones are texts. Error(unsupported) beyond kMostSettingValues.
std::optional<std::string> json_text(const PickleValue& value, const ScalarReader& scalars);

/// A setting's value as JSON text (json_text), counted with the `n_values` that were read before;
/// errors name the setting.
std::optional<std::string> named_setting(std::string_view name, const PickleValue& value,
                                         const ScalarReader& scalars, std::size_t& n_values);

/// All entries of a mapping that json_text has words for, but for what names members. Error
/// (unsupported) beyond kMostSettings.
Settings settings_of(const PickleValue& mapping, const ScalarReader& scalars);

/// A setting of a group: named_setting, and a text that is no setting of Adam's for those that it
/// computes with and there are no words for.
std::optional<std::string> group_setting(std::string_view name, const PickleValue& value,
                                         const ScalarReader& scalars, std::size_t& n_values);

/// torch's `param_groups`, a list of mappings, without their parameters; empty for anything else.
/// Error(corrupt) for a group of another kind.
std::vector<ParameterGroup> groups_of(const PickleValue* list, const ScalarReader& scalars);

}  // namespace shardweld::formats

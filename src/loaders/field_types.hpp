// What kinds of values transformers' configurations take for a field of config.json.
// Sources: annotations of all configurations of transformers 5.24, which refuse all else
// (StrictDataclassFieldValidationError, run).
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace shardweld::loaders {

/// What a field takes ("a number with a point, or null"), where `value` is nothing that any
/// configuration takes for it; "" for values that are taken and for fields that are not known.
/// `type`: the model type whose configuration it is, "" where it is not known.
std::string taken_instead(std::string_view type, std::string_view field,
                          const nlohmann::json& value);

/// Whether what a model gives is computed with this number: neither a setting of training, nor one
/// of which infinity is a value like others.
bool is_computed_with(std::string_view field);

/// The name of a torch dtype, with or without "torch.".
bool is_dtype(std::string_view name);

/// A function that transformers knows by this name (ACT2FN).
bool is_activation(std::string_view name);

}  // namespace shardweld::loaders

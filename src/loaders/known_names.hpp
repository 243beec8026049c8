// Which model types and classes loaders know, and what kinds of values transformers' configurations
// take for a field of config.json.
// Sources: the packages that scripts/known-names.py names; annotations of all configurations of
// transformers 5.24, which refuse all else (StrictDataclassFieldValidationError, run).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "directory.hpp"

namespace shardweld::loaders {

/// Words between spaces and ends of lines.
extern const std::string_view kTransformersTypes;
extern const std::string_view kTransformersClasses;
extern const std::string_view kVllmTypes;
extern const std::string_view kVllmClasses;
extern const std::string_view kSglangTypes;
extern const std::string_view kSglangClasses;
extern const std::string_view kGgufArchitectures;
/// A letter and a field, in turn; letters of fields for which model types refuse null ("ab:"), and
/// the types.
extern const std::string_view kNullFields;
extern const std::string_view kNullRefusals;

/// Whether `word` is one of a list's, which spaces part.
bool is_one_of(std::string_view list, std::string_view word);

/// The key of each word of a list "key: word word key: word".
std::map<std::string, std::string, std::less<>> keys_of_words(std::string_view list);

/// Whether the loader has a configuration for this `model_type` without code from the directory.
/// TGI's own types are transformers', too.
bool knows_type(Loader loader, std::string_view type);

/// Whether a server has a class of this name, or transformers', which servers fall back to;
/// llama.cpp an architecture.
bool knows_class(Loader loader, std::string_view name);

/// Whether transformers' configuration of this `model_type` refuses null for a field.
bool refuses_null(std::string_view type, std::string_view field);

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

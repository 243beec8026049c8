// Which model types and classes loaders know.
// Sources: the packages that scripts/known-names.py names.
#pragma once

#include <map>
#include <string>
#include <string_view>

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

}  // namespace shardweld::loaders

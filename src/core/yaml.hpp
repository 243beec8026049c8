// What trainers' YAML files say, as far as it is needed: the values one level below a section.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace shardweld {

using YamlFields = std::map<std::string, std::string, std::less<>>;

/// The scalars of one section of a mapping, "  key: value" one level below "section:", without
/// quotes and comments; a list of scalars as "[1, 2]". Mappings below are left out. Empty where
/// there is no such section.
YamlFields yaml_section(std::string_view yaml, std::string_view section);

}  // namespace shardweld

#include "names.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace shardweld {

bool leads_below(std::string_view path) {
    return !has_part(path, '\0') &&
           std::ranges::all_of(split(path, '/'), [](std::string_view part) {
               return !part.empty() && part != "." && part != "..";
           });
}

bool stays_below(std::string_view path) {
    return !path.empty() && path.front() != '/' && !has_part(path, '\0') &&
           !contains(split(path, '/'), "..");
}

bool is_plain_name(std::string_view name) {
    constexpr std::string_view kSigns = ".-=";
    return !name.empty() && name != "." && name != ".." && name.front() != '-' &&
           std::ranges::all_of(name,
                               [&](char c) { return is_name_part(c) || has_part(kSigns, c); });
}

}  // namespace shardweld

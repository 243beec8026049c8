#include "verification.hpp"

#include <map>

#include "core/text.hpp"

namespace shardweld::models {

namespace {

constexpr std::string_view kNames = "names";
using ByRecipe = std::map<std::string, std::vector<Verification>, std::less<>>;

/// "llama | verl fsdp | case case" a line.
ByRecipe parse_list(std::string_view text) {
    ByRecipe all;
    for (const std::string_view line : split(text, '\n')) {
        const auto cells = split(line, '|');
        if (line.starts_with("#") || cells.size() != 3) {
            continue;
        }
        Verification one;
        one.format = trim(cells[1]);
        one.level = one.format == kNames ? Verified::names : Verified::files;
        for (const std::string_view name : split(trim(cells[2]), ' ')) {
            one.by.emplace_back(name);
        }
        all[std::string(trim(cells[0]))].push_back(std::move(one));
    }
    return all;
}

const ByRecipe& built_in() {
    static const ByRecipe all = parse_list(built_in_text(kVerifiedList));
    return all;
}

}  // namespace

std::string_view name_of(Verified level) {
    return level == Verified::files ? "files" : level == Verified::names ? kNames : "no";
}

std::vector<Verification> verifications_of(const Recipe& recipe) {
    if (recipe.is_extra) {
        return recipe.verified.empty()
                   ? std::vector<Verification>()
                   : std::vector<Verification>{{"", Verified::files, recipe.verified}};
    }
    return copy_or(find_value(built_in(), recipe.name), std::vector<Verification>());
}

Verification verification_in(const Recipe& recipe, std::string_view format, bool has_own_names) {
    Verification best{std::string(format), Verified::no, {}};
    for (const Verification& one : verifications_of(recipe)) {
        const bool fits = one.level == Verified::names ? has_own_names
                                                       : one.format.empty() || one.format == format;
        if (fits && one.level > best.level) {
            best.level = one.level;
            best.by = one.by;
        }
    }
    return best;
}

}  // namespace shardweld::models

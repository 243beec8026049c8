// What names say: the rows of path_rules.txt (files and directories) and tensor_rules.txt (tensors,
// modules, settings), which are compiled in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld {

/// A row; the first lines of both files say what its cells are.
struct NameRule {
    std::string_view format;                 ///< or family that it is about; "": any
    std::vector<std::string_view> patterns;  ///< one that ends in '/' is a directory's
    std::vector<std::string_view> but;       ///< names that are none of these
    std::vector<std::string_view> beside;    ///< all of which lie in the same directory
    std::string_view what;
    std::string_view more;
};

/// All rows by their verbs, in the order of the files.
struct NameRules {
    std::vector<NameRule> steps, last_saves, best_saves, ways, shards, indices, seen, lacking,
        names, left_aside, refused, dialects, parts, traces, telling, children, words;
};
const NameRules& name_rules();

/// The digits in a name, by what its pattern calls them.
struct NameParts : std::map<std::string_view, std::string_view> {
    /// The number of this part; 0 where the pattern has no such part.
    [[nodiscard]] Index number(std::string_view part) const;
};

/// The parts of a name that fits a pattern: '*' is any text, '#' a number, {x} or {x:02} a number
/// that is a part. Linear in the name for each '*'. They refer to both texts.
std::optional<NameParts> match_name(std::string_view pattern, std::string_view name);
bool matches(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string_view>& patterns, std::string_view name);

/// The name that fits a pattern of texts and parts, with these numbers.
std::string name_with(std::string_view pattern, const std::map<std::string_view, Index>& numbers);

/// A name that fits a row.
struct RuleMatch {
    const NameRule* rule = nullptr;
    std::string_view pattern;  ///< of the row's the one that it fits
    NameParts parts;
};
/// By the first row that the name fits: of those of this format, or all. The name of a directory
/// ends in '/'.
std::optional<RuleMatch> match_rule(const std::vector<NameRule>& rules, std::string_view name,
                                    std::optional<std::string_view> format = std::nullopt);

/// The first row of a format that says `what`. There is one.
const NameRule& rule_of(const std::vector<NameRule>& rules, std::string_view format,
                        std::string_view what = "");

/// The words and patterns of names that `what` says.
const std::vector<std::string_view>& known_words(std::string_view what);
/// Whether one of them fits the name.
bool is_known_as(std::string_view name, std::string_view what);

}  // namespace shardweld

#include "module_pattern.hpp"

#include <algorithm>
#include <cctype>
#include <regex>

#include "shardweld/core/error.hpp"
#include "shardweld/core/regex_limits.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::adapters {

namespace {

constexpr std::size_t kLongestPattern = 500;
constexpr std::size_t kLongestPath = 400;

// Without it an expression such as (a*)*b takes exponential time.
#ifdef __GLIBCXX__
constexpr auto kSyntax = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
constexpr auto kSyntax = std::regex::ECMAScript;
#endif

/// A plain pattern is by far the commonest; its dots stand for any character.
bool ends_with_plain(const std::string& pattern, const std::string& path) {
    if (pattern.size() > path.size()) {
        return false;
    }
    const std::size_t begin = path.size() - pattern.size();
    const bool is_cut = begin == 0 || path[begin - 1] == '.';
    return is_cut && std::equal(pattern.begin(), pattern.end(),
                                path.begin() + static_cast<std::ptrdiff_t>(begin),
                                [](char p, char c) { return p == '.' || p == c; });
}

bool matches(const std::string& expression, const std::string& path) {
    // Counted repetitions blow an expression up to any size.
    if (expression.size() > kLongestPattern || path.size() > kLongestPath ||
        expression.find('{') != std::string::npos || has_long_number(expression)) {
        throw Error(
            ErrorCode::unsupported,
            "the adapter's pattern " + printable(expression) + " for the module " +
                printable(path) +
                " is too long, counts repetitions ({n}) or holds a long number: write it as a "
                "module name");
    }
    try {
        return std::regex_match(path, std::regex(expression, kSyntax));
    } catch (const std::regex_error& error) {
        throw Error(ErrorCode::unsupported, "cannot read the adapter's pattern " +
                                                printable(expression) + ": " + error.what() +
                                                "; write it as a module name");
    }
}

}  // namespace

bool is_plain(const std::string& pattern) {
    return std::all_of(pattern.begin(), pattern.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
}

bool matches_end(const std::string& pattern, const std::string& path) {
    return is_plain(pattern) ? ends_with_plain(pattern, path)
                             : matches("(.*\\.)?(" + pattern + ")", path);
}

bool matches_whole(const std::string& pattern, const std::string& path) {
    return matches(pattern, path);
}

}  // namespace shardweld::adapters

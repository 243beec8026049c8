#include "module_pattern.hpp"

#include <algorithm>
#include <cctype>

#include "core/regex.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::adapters {

namespace {

// No module's name needs more; an expression is compiled for every module it is held against.
constexpr std::size_t kLongestPattern = 500;

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
    if (expression.size() > kLongestPattern) {
        throw Error(ErrorCode::unsupported,
                    "the adapter's pattern " + printable(expression) + " for the module " +
                        printable(path) + " is too long",
                    "write it as a module name");
    }
    try {
        return Regex(expression).matches(path);
    } catch (const Error& error) {
        throw Error(ErrorCode::unsupported,
                    "cannot read the adapter's pattern " + printable(expression) + " (" +
                        printable(error.what()) + "; look-around and back-references are not read)",
                    "write it as a module name");
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

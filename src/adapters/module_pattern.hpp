// PEFT's way to match a module's path: the pattern is a regular expression for the path's end, from
// a dot (or the beginning) on. Facts: peft 0.21, utils/other.py get_pattern_key.
#pragma once

#include <string>

namespace shardweld::adapters {

/// Whether a pattern is only a module's name, which is matched quickly.
bool is_plain(const std::string& pattern);

/// Whether `pattern` matches an end of `path`. Error(unsupported) for an expression that cannot be
/// read or is longer than any that makes sense.
bool matches_end(const std::string& pattern, const std::string& path);

/// The same for a pattern that has to match the whole path (target_modules given as text).
bool matches_whole(const std::string& pattern, const std::string& path);

}  // namespace shardweld::adapters

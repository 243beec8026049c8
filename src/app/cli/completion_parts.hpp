// What completion scripts of all shells are made of.
// Knows texts and the tables; knows no shell.
#pragma once

#include <string>
#include <vector>

namespace shardweld::app {

/// The built-in recipes and dialects.
std::vector<std::string> recipe_names();

/// "a b c".
std::string spaced(const std::vector<std::string>& words);

}  // namespace shardweld::app

// Completion scripts for shells, made from the tables of commands and options so that they cannot
// go stale.
#pragma once

#include <string>
#include <string_view>

namespace shardweld::app {

/// A script for "bash", "zsh" or "fish" that completes commands, options and their values,
/// directories, files and the names of recipes after `shardweld`. Error(usage).
std::string completion_for(std::string_view shell);

}  // namespace shardweld::app

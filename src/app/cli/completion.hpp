// Completion scripts for shells, made from the tables of commands and options so that they cannot
// go stale. Knows shells and the tables; nothing of what options do.
#pragma once

#include <string>
#include <string_view>

namespace shardweld::app {

// Each to be read by its shell: completes commands, options and their values, directories, files
// and the names of recipes after `shardweld`.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

/// Of "bash", "zsh" or "fish". Error(usage).
std::string completion_for(std::string_view shell);

}  // namespace shardweld::app

// Command lines as text, for people and for job scripts to run.
#pragma once

#include <string>
#include <vector>

namespace shardweld::process {

/// `text` as one word of a POSIX shell's command line, whatever bytes it has.
std::string shell_word(const std::string& text);

/// Words as a command line, or a part of one.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace shardweld::process

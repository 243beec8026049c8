// Command lines as text, for people and for job scripts to run.
// Knows a shell's quoting; runs nothing.
#pragma once

#include <string>

namespace shardweld::process {

/// `text` as one word of a POSIX shell's command line, whatever bytes it has.
std::string shell_word(const std::string& text);

}  // namespace shardweld::process

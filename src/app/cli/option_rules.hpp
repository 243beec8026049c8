// What several options say together: which belong together, exclude each other, or are needed.
// Knows the options that are given; nothing of how each is read.
#pragma once

#include "arguments.hpp"
#include "options.hpp"

namespace shardweld::app {

/// After all options are read. Error(usage).
void check_together(const Arguments& arguments, const Options& options);

}  // namespace shardweld::app

// `shardweld report`: what a run's report says, for a terminal or as a page.
// Knows where it is read and written; how it looks is report's matter.
#pragma once

#include <ostream>

#include "../cli/options.hpp"

namespace shardweld::app {

/// Local. Prints, or writes the page where --html asks for one. Returns the exit code. Errors of
/// read_run_record; Error(io) when the page cannot be written.
int show_report(const Options& options, std::ostream& out);

}  // namespace shardweld::app

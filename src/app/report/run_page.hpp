// A report as one page of HTML that needs nothing else: no script, no network.
// Knows what a run record holds and how to draw it; gathers nothing.
#pragma once

#include <string>

#include "run_record.hpp"

namespace shardweld::app {

/// Everything that came from the report is escaped.
std::string run_page(const RunRecord& record);

}  // namespace shardweld::app

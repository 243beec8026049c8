// A report for a terminal.
// Knows what a run record holds and how to show it in lines.
#pragma once

#include <string>

#include "run_record.hpp"

namespace shardweld::app {

std::string run_text(const RunRecord& record);

}  // namespace shardweld::app

// The ledger drawn: from all that was stored to what became of it.
#pragma once

#include <string>

#include "run_record.hpp"

namespace shardweld::app {

/// HTML: bands as wide as their bytes, and beside them what they are.
std::string ledger_flow(const RunRecord& record);

}  // namespace shardweld::app

// What a report says of whether all was as it should be.
// Knows the parts of a report that tell; judges no tensor.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "run_record.hpp"

namespace shardweld::app {

/// `record`: of the same report, with its ledger.
std::vector<Check> run_checks(const nlohmann::json& report, const RunRecord& record);

}  // namespace shardweld::app

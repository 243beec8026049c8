// Secrets in what is written as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace shardweld::app {

/// Every text of the value without_secrets (core/redact.hpp).
nlohmann::ordered_json hidden(nlohmann::ordered_json json);

}  // namespace shardweld::app

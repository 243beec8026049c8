// An adapter that lies gathered beside the shards (verl's lora_adapter/, what Trainer saves) may be
// another step's: it is held against the factors that the shards have. Knows files of adapters;
// nothing of how factors are gathered.
#pragma once

#include <vector>

#include "main_path.hpp"

namespace shardweld::app {

/// Collective. `written` is the file that the shards' factors were written to. `adapter_stale`,
/// where the one beside the shards has other factors, and where they cannot be compared.
std::vector<plan::Warning> stale_adapter(Session& session, const Planned& planned,
                                         const fs::path& written);

}  // namespace shardweld::app

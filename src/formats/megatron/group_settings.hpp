// An optimizer's parameter groups where every rank, or group of ranks, states them for itself.
#pragma once

#include <string_view>

#include "formats/format.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/optimizer_claims.hpp"

namespace shardweld::formats::megatron {

/// Adds what an object among the shards says, called as
/// "chained_0.optimizer.distributed.dp_group_idx_1.optimizer"; others are left alone, and those in
/// files that are not seen here. Error(unsupported) for an object that is itself the state of a
/// group of ranks; Error as by the claims.
void add_group_settings(const Location& location, std::string_view name, const ObjectPlace& place,
                        GroupClaims& groups, StepClaims& steps);

}  // namespace shardweld::formats::megatron

// The optimizer's states as the buckets of its buffers ("dp_reshardable", before megatron-core 0.14
// "fully_sharded_bucket_space"): vectors without names, one for each bucket of each group of ranks
// that share their parameters. Sources: megatron-core 0.12.2, 0.16.1 and 0.19.2
// megatron/core/optimizer/distrib_optimizer.py (sharded_param_state_fs_bucket_space,
// sharded_param_state_dp_reshardable).
#pragma once

#include <optional>
#include <string_view>

#include "formats/catalogue_words.hpp"

namespace shardweld::formats::megatron {

/// A bucket's key, taken apart.
struct BucketKey {
    Index chain = -1;  ///< number of the optimizer where there are several
    Index group = 0;   ///< of ranks
    Index buffer = 0;
    std::string_view types;  ///< of parameters and gradients
    Index bucket = 0;
    std::string_view state;  ///< "exp_avg"
};

/// "chained_0.optimizer.distributed.dp_group_idx_1.gbuf_idx_0.dtype_(torch.bfloat16,
/// torch.float32).bucket_idx_0.exp_avg"; nullopt for other keys.
std::optional<BucketKey> bucket_key(std::string_view key);

/// Gives the elements of buckets the names of their parameters (Format::split_flat_states). Leaves
/// states that have names already. Error(mismatch) where the buckets do not fit the model's
/// parameters, Error(unsupported) where these have no known order.
void carve_buckets(Catalogue& catalogue);

}  // namespace shardweld::formats::megatron

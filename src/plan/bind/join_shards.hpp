// Puts rank-local shards together to global stored tensors, as the dialect's `<...>` joins say.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

#include "store_match.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

/// What joining made of a catalogue's shards.
struct JoinedShards {
    std::vector<catalogue::Tensor> tensors;
    /// Names of tensors of which nothing but equality says that all ranks hold the same.
    std::set<std::string> presumed;
};

/// Joins all shards of a catalogue. Shards no line takes are kept as single tensors under their
/// name (the caller decides what they are). Error(not_found) for a missing rank's shard,
/// Error(mismatch) for shapes or dtypes that do not fit together.
JoinedShards join_shards(const catalogue::Catalogue& catalogue, const Model& model,
                         const StoreMatcher& matcher);

}  // namespace shardweld::plan

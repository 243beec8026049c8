// The shards of one stored tensor, and the parallel groups they are spread over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

/// Fact of a catalogue whose device mesh was given by hand.
inline constexpr const char* kMeshFact = "mesh_by_hand";

/// All shards of one global name, and the line that takes them (null: none).
struct ShardGroup {
    const models::Line* line = nullptr;
    models::Captures captures;
    std::vector<const catalogue::Shard*> shards;
};

/// Ranks of a parallel group, as the catalogue's facts say; 1 if they do not.
Index group_size(const catalogue::Catalogue& catalogue, models::JoinStep::Group group);

/// The shard's rank in a group.
int rank_in(const catalogue::Shard& shard, models::JoinStep::Group group);

/// "tensor-parallel".
std::string_view group_name(models::JoinStep::Group group);

/// "file NAME".
std::string place_of(const catalogue::Shard& shard, const catalogue::Catalogue& catalogue);

/// The whole tensor's shape, as the line's layout implies it. Requires a line.
std::vector<Index> full_shape(const ShardGroup& group, const Model& model);

}  // namespace shardweld::plan

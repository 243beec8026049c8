// How shards of one stored tensor are put together where no line says it: by the shape the layout
// implies, or by the mesh on the command line.
// Knows shapes and groups; the joining itself is join.hpp's.
#pragma once

#include "shard_group.hpp"

namespace shardweld::plan {

/// How a group is joined: as its line says; without one, as a mesh given by hand says, else the
/// shards are taken for replicas. Error(mismatch) when the shards do not make up the shape that
/// the line's layout implies, or do so in several ways.
models::Join join_of(const std::string& name, const ShardGroup& group, const Model& model,
                     const catalogue::Catalogue& catalogue);

}  // namespace shardweld::plan

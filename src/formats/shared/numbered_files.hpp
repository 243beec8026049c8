// Files of one set that number themselves: "model-00002-of-00003.safetensors".
// Knows names only.
#pragma once

#include <string>
#include <vector>

namespace shardweld::formats {

/// Of every set that `files` are of, all must be among them. Sets count from 1, or from 0 where
/// there is a 0. Error(not_found) naming those that are not.
void require_whole_sets(const std::vector<std::string>& files);

}  // namespace shardweld::formats

// Names of what a run keeps inside a target that has no sibling.
// Knows names only.
#pragma once

namespace shardweld::publish {

inline constexpr const char* kPartialInside = ".shardweld-partial";
inline constexpr const char* kLockInside = ".shardweld-lock";

}  // namespace shardweld::publish

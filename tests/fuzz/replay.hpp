// The targets of a replay program, which tests/fuzz/CMakeLists.txt lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace shardweld::fuzz {

/// A target's entry point by its name.
const std::map<std::string, int (*)(const std::uint8_t*, std::size_t)>& replay_targets();

}  // namespace shardweld::fuzz

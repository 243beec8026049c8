// Files that take milliseconds each, read by threads in turns.
#pragma once

#include <cstddef>
#include <functional>

#include "core/index.hpp"

namespace shardweld::app {

/// How many threads read so many files on each of so many ranks of a node. They mostly wait for a
/// file system far away, so cores do not limit them, but what its servers bear.
std::size_t reading_threads(Index ranks_on_node, std::size_t n_files);

/// Calls `work` for each of 0 to n - 1 once, and begins them in this order. Up to `n_threads` take
/// turns, the caller's among them, where there is memory for them; that alone may talk to other
/// ranks. Throws what the first that fails throws; later ones may be left out then.
void in_turns(std::size_t n, std::size_t n_threads,
              const std::function<void(std::size_t at, bool is_callers)>& work);

}  // namespace shardweld::app

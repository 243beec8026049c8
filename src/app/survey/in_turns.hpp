// Work on many files, each of which takes milliseconds to open on a parallel file system: two
// threads take turns. Knows nothing of the files but that many hold pickles (PickleMemory).
#pragma once

#include <cstddef>
#include <functional>

namespace shardweld::app {

/// Which thread has the turn: only the caller's may tell others of it.
enum class Turn { own, other };

/// Calls `work` for each of 0 to n - 1 once, and begins them in this order. A second thread takes
/// turns where `has_spare_core` and there is memory for it. Throws what the first that fails
/// throws; later ones may be left out then.
void in_turns(std::size_t n, bool has_spare_core,
              const std::function<void(std::size_t at, Turn turn)>& work);

}  // namespace shardweld::app

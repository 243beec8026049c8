// Which pages of a file the system holds in memory, and asking it to let go of them.
// Knows descriptors; nothing of who reads them.
#pragma once

#include "shardweld/core/index.hpp"

namespace shardweld::measure {

/// Asks the system to drop a part of a file; dirty pages stay.
void drop_cached(int fd, Bytes offset, Bytes size);

/// Bytes of a part of a file that are in the page cache. Where the system does not tell, all count:
/// it tells of files that one owns or may write (mincore(2)).
Bytes cached_bytes(int fd, Bytes offset, Bytes size);

}  // namespace shardweld::measure

// Which pages of a file the system holds in memory.
#pragma once

#include "core/index.hpp"

namespace shardweld::measure {

/// Bytes of a part of a file that are in the page cache. Where the system does not tell, all count:
/// it tells of files that one owns or may write (mincore(2)).
Bytes cached_bytes(int fd, Bytes offset, Bytes size);

}  // namespace shardweld::measure

// Which parts of a file have no blocks on the disk. Facts: the FIEMAP ioctl (the kernel's
// Documentation/filesystems/fiemap.rst); changes nothing.
#pragma once

#include <utility>
#include <vector>

#include "core/index.hpp"

namespace shardweld::io {

/// Ranges [begin, end) below `size` without blocks, in order. Blocks that were reserved and not
/// written count as blocks. Everything below `size` where the file system does not tell. Local.
std::vector<std::pair<Bytes, Bytes>> ranges_without_blocks(int fd, Bytes size);

}  // namespace shardweld::io

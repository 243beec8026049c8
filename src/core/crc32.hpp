// CRC-32 as zip files have it (zlib's): of bytes, and of a whole of which the parts' sums are
// known.
#pragma once

#include <cstdint>
#include <string>

#include "index.hpp"

namespace shardweld {

/// Chainable: `seed` is the sum of what lies before.
std::uint32_t crc32(ByteView bytes, std::uint32_t seed = 0);

/// What a sum adds to that of a whole in which `n_bytes` follow its part: crc32_moved(a, size of b)
/// ^ b is the sum of a and b behind one another. About a microsecond. Pure.
std::uint32_t crc32_moved(std::uint32_t sum, Bytes n_bytes);

/// " has the CRC-32 01234567, the file says 89abcdef: ...", for messages.
std::string wrong_crc32(std::uint32_t found, std::uint32_t stated);

}  // namespace shardweld

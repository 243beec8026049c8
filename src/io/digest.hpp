// Checksums of blocks of bytes: xxh3-128. Knows nothing of where they lie.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace shardweld::io {

/// xxh3-128, canonical (big-endian) bytes.
using Digest = std::array<std::byte, 16>;

Digest digest_of(std::span<const std::byte> bytes);

/// 32 hex digits.
std::string hex(const Digest& digest);

}  // namespace shardweld::io

#include "shardweld/io/digest.hpp"

#include <algorithm>

#include <xxhash.h>

namespace shardweld::io {

Digest digest_of(std::span<const std::byte> bytes) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
    Digest digest{};
    std::copy_n(reinterpret_cast<const std::byte*>(canonical.digest), digest.size(),
                digest.begin());
    return digest;
}

}  // namespace shardweld::io

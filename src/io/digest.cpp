#include "digest.hpp"

#include <algorithm>
#include <string_view>

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

std::string hex(const Digest& digest) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : digest) {
        text += kDigits[std::to_integer<std::size_t>(byte >> 4U)];
        text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return text;
}

}  // namespace shardweld::io

#include "digest.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include <openssl/evp.h>
#include <xxhash.h>

#include "shardweld/error.hpp"

#include "input_file.hpp"

namespace shardweld::io {

Digest digest_of(ByteView bytes) {
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

namespace {

constexpr Bytes kPart = Bytes{256} << 10U;

using Context =
    std::unique_ptr<EVP_MD_CTX, decltype([](EVP_MD_CTX* one) { EVP_MD_CTX_free(one); })>;

void require(int is_done) {
    if (is_done != 1) {
        throw Error(ErrorCode::internal, "libcrypto cannot compute SHA-256");
    }
}

}  // namespace

std::string sha256_of(const InputFile& file, const std::function<void(Bytes)>& before_part) {
    const Context context(EVP_MD_CTX_new());
    require(context != nullptr ? EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) : 0);
    std::vector<std::byte> part(std::min(kPart, file.size()));
    for (Bytes at = 0; at < file.size(); at += part.size()) {
        part.resize(std::min(kPart, file.size() - at));
        before_part(part.size());
        file.read_at(at, part);
        require(EVP_DigestUpdate(context.get(), part.data(), part.size()));
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    require(EVP_DigestFinal_ex(context.get(), digest.data(), &size));
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
        text += kDigits[digest[i] >> 4U];
        text += kDigits[digest[i] & 15U];
    }
    return text;
}

}  // namespace shardweld::io

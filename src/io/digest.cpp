#include "digest.hpp"

#include <algorithm>
#include <new>
#include <string_view>

#include <openssl/evp.h>
#include <xxhash.h>
#ifdef SHARDWELD_XXHASH_DISPATCH  // the same functions in the processor's widest registers
#include <xxh_x86dispatch.h>
#endif

#include "shardweld/error.hpp"

#include "input_file.hpp"

namespace shardweld::io {

namespace {

Digest canonical(XXH128_hash_t hash) {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    Digest digest{};
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.digest), digest.size(), digest.begin());
    return digest;
}

}  // namespace

Digest digest_of(ByteView bytes) {
    return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

struct DigestStream::State {
    std::unique_ptr<XXH3_state_t, decltype([](XXH3_state_t* one) { XXH3_freeState(one); })> hash{
        XXH3_createState()};
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
    if (state_->hash == nullptr) {
        throw std::bad_alloc();
    }
    reset();
}
DigestStream::~DigestStream() = default;

void DigestStream::add(ByteView bytes) {
    (void)XXH3_128bits_update(state_->hash.get(), bytes.data(), bytes.size());
}

Digest DigestStream::digest() const {
    return canonical(XXH3_128bits_digest(state_->hash.get()));
}

void DigestStream::reset() {
    (void)XXH3_128bits_reset(state_->hash.get());
}

std::string hex(ByteView bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
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
    ByteBuffer part(std::min(kPart, file.size()));
    for (Bytes at = 0; at < file.size(); at += part.size()) {
        part.resize(std::min(kPart, file.size() - at));
        before_part(part.size());
        file.read_at(at, part);
        require(EVP_DigestUpdate(context.get(), part.data(), part.size()));
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    require(EVP_DigestFinal_ex(context.get(), digest.data(), &size));
    return hex(std::as_bytes(std::span(digest).first(size)));
}

}  // namespace shardweld::io

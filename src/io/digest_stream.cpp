#include "digest_stream.hpp"

#include <algorithm>
#include <new>

#include <xxhash.h>

namespace shardweld::io {

struct DigestStream::State {
    struct FreeState {
        void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, FreeState> hash{XXH3_createState()};
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
    if (state_->hash == nullptr || XXH3_128bits_reset(state_->hash.get()) != XXH_OK) {
        throw std::bad_alloc();
    }
}
DigestStream::DigestStream(DigestStream&& other) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&& other) noexcept = default;
DigestStream::~DigestStream() = default;

void DigestStream::add(ByteView bytes) {
    (void)XXH3_128bits_update(state_->hash.get(), bytes.data(), bytes.size());
}

Digest DigestStream::digest() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->hash.get()));
    Digest digest{};
    std::copy_n(reinterpret_cast<const std::byte*>(canonical.digest), digest.size(),
                digest.begin());
    return digest;
}

}  // namespace shardweld::io

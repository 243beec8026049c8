// A checksum of bytes that come piece by piece.
#pragma once

#include <memory>

#include "digest.hpp"

namespace shardweld::io {

/// Together the pieces have the digest_of() the whole.
class DigestStream {
  public:
    DigestStream();
    DigestStream(DigestStream&& other) noexcept;
    DigestStream& operator=(DigestStream&& other) noexcept;
    DigestStream(const DigestStream&) = delete;
    DigestStream& operator=(const DigestStream&) = delete;
    ~DigestStream();

    void add(ByteView bytes);
    /// The checksum of the pieces so far.
    [[nodiscard]] Digest digest() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace shardweld::io

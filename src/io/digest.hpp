// Checksums of blocks of bytes: xxh3-128.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/index.hpp"

namespace shardweld::io {

/// xxh3-128, canonical (big-endian) bytes.
using Digest = std::array<std::byte, 16>;

Digest digest_of(ByteView bytes);

/// The checksum of bytes that come piece by piece: together they have the digest_of() the whole.
class DigestStream {
  public:
    DigestStream();
    ~DigestStream();

    void add(ByteView bytes);
    /// The checksum of the pieces so far.
    [[nodiscard]] Digest digest() const;
    /// Forgets all pieces.
    void reset();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Two hex digits for each byte, such as a Digest's.
std::string hex(ByteView bytes);

class InputFile;

/// SHA-256 of the whole file, 64 hex digits; one core reads and computes, front to back, and calls
/// `before_part` with the bytes that it reads next, at most 256 KiB. Local. Error(io).
std::string sha256_of(
    const InputFile& file, const std::function<void(Bytes)>& before_part = [](Bytes) {});

}  // namespace shardweld::io

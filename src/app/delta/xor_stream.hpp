// Bytes that differ little as zstd of their XOR, and back, piece by piece: a tensor of any size
// takes a few MiB.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/index.hpp"

namespace shardweld::app {

/// Is given the next bytes of a stream.
using TakeBytes = std::function<void(std::span<const std::byte>)>;

/// `into` becomes the XOR of both, which are of one size.
void xor_into(std::span<std::byte> into, std::span<const std::byte> other);

/// Compresses at level 1. Each stream is one frame that states its size, which Python's
/// zstandard.decompress() needs. Equal pieces give equal bytes. May be used again.
class FrameEncoder {
  public:
    FrameEncoder();
    FrameEncoder(const FrameEncoder&) = delete;
    FrameEncoder& operator=(const FrameEncoder&) = delete;
    FrameEncoder(FrameEncoder&&) = delete;
    FrameEncoder& operator=(FrameEncoder&&) = delete;
    ~FrameEncoder();

    /// A stream of `size` bytes, more than none, all of which are then added.
    void begin(Bytes size);
    void add(std::span<const std::byte> bytes, const TakeBytes& take);

  private:
    struct Context;
    std::unique_ptr<Context> context_;
    std::vector<std::byte> buffer_;
    Bytes left_ = 0;
};

/// Takes a frame apart again. May be used again.
class FrameDecoder {
  public:
    FrameDecoder();
    FrameDecoder(const FrameDecoder&) = delete;
    FrameDecoder& operator=(const FrameDecoder&) = delete;
    FrameDecoder(FrameDecoder&&) = delete;
    FrameDecoder& operator=(FrameDecoder&&) = delete;
    ~FrameDecoder();

    void begin();
    /// Error(corrupt) where it is no zstd, or goes on behind the frame.
    void add(std::span<const std::byte> bytes, const TakeBytes& take);
    /// Error(corrupt) when the frame is not complete.
    void end() const;

  private:
    struct Context;
    std::unique_ptr<Context> context_;
    std::vector<std::byte> buffer_;
    bool is_whole_ = false;
};

}  // namespace shardweld::app

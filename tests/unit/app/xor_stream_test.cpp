#include "app/delta/xor_stream.hpp"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"
#include "support/error_text.hpp"

namespace shardweld::app {
namespace {

using Blob = std::vector<std::byte>;

/// Mostly zeros, as what changed between two steps.
Blob sparse(std::size_t size, unsigned one_of) {
    std::mt19937 random(7);
    Blob bytes(size);
    for (std::byte& byte : bytes) {
        byte =
            random() % one_of == 0 ? std::byte{static_cast<unsigned char>(random())} : std::byte{0};
    }
    return bytes;
}

Blob encoded(FrameEncoder& encoder, const Blob& bytes, std::size_t piece) {
    Blob frame;
    encoder.begin(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        const std::size_t size = std::min(piece, bytes.size() - at);
        encoder.add(std::span(bytes).subspan(at, size), [&](std::span<const std::byte> made) {
            frame.insert(frame.end(), made.begin(), made.end());
        });
    }
    return frame;
}

Blob decoded(FrameDecoder& decoder, const Blob& frame, std::size_t piece) {
    Blob bytes;
    decoder.begin();
    for (std::size_t at = 0; at < frame.size(); at += piece) {
        const std::size_t size = std::min(piece, frame.size() - at);
        decoder.add(std::span(frame).subspan(at, size), [&](std::span<const std::byte> made) {
            bytes.insert(bytes.end(), made.begin(), made.end());
        });
    }
    decoder.end();
    return bytes;
}

TEST(XorStream, brings_every_byte_back_in_pieces_of_any_size) {
    FrameEncoder encoder;
    FrameDecoder decoder;
    for (const std::size_t size : {1U, 9U, 131072U, 1000003U}) {
        for (const unsigned one_of : {1U, 40U}) {
            const Blob bytes = sparse(size, one_of);
            const Blob frame = encoded(encoder, bytes, 65536);
            EXPECT_EQ(decoded(decoder, frame, 100), bytes);
            EXPECT_EQ(decoded(decoder, frame, frame.size()), bytes);
            EXPECT_EQ(encoded(encoder, bytes, 65536), frame);
        }
    }
}

TEST(XorStream, makes_few_bytes_of_few_changes) {
    FrameEncoder encoder;
    EXPECT_LT(encoded(encoder, sparse(1U << 20U, 100), 1U << 18U).size(), 1U << 16U);
}

/// What a receiver gives zstandard.decompress(): one frame, which says how long it will be.
TEST(XorStream, states_the_size_in_the_frame) {
    FrameEncoder encoder;
    const Blob frame = encoded(encoder, sparse(300, 2), 100);
    ASSERT_GT(frame.size(), 8U);
    // RFC 8878: magic number; descriptor of a single segment with two bytes of size, less 256.
    EXPECT_EQ(frame[0], std::byte{0x28});
    EXPECT_EQ(frame[4] & std::byte{0xE0}, std::byte{0x60});
    EXPECT_EQ(frame[5], std::byte{300 - 256});
}

TEST(XorStream, refuses_damaged_cut_and_longer_frames) {
    FrameEncoder encoder;
    FrameDecoder decoder;
    const Blob frame = encoded(encoder, sparse(100000, 3), 5000);
    Blob cut = frame;
    cut.pop_back();
    Blob longer = frame;
    longer.push_back(std::byte{0});
    Blob damaged = frame;
    damaged[0] = std::byte{0};
    for (const Blob& bad : {cut, longer, damaged}) {
        EXPECT_TRUE(test::error_text([&] {
                        (void)decoded(decoder, bad, 4096);
                    }).starts_with("corrupt: zstd: "));
    }
    EXPECT_EQ(decoded(decoder, frame, 4096).size(), 100000U);
}

TEST(XorInto, is_its_own_inverse_at_any_length) {
    for (std::size_t size = 0; size < 40; ++size) {
        const Blob one = sparse(size, 1);
        Blob two(size, std::byte{0x5A});
        xor_into(two, one);
        for (std::size_t i = 0; i < size; ++i) {
            EXPECT_EQ(two[i], one[i] ^ std::byte{0x5A});
        }
        xor_into(two, one);
        EXPECT_EQ(two, Blob(size, std::byte{0x5A}));
    }
}

}  // namespace
}  // namespace shardweld::app

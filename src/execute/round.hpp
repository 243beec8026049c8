// One round of a plan for one rank: what to read, send, receive and assemble.
// Knows plans and buffers; does no I/O and no MPI itself.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "shardweld/plan/plan.hpp"

#include "reader.hpp"

namespace shardweld::execute {

/// Memory that grows to the largest size asked for and is reused: first touch of new pages is what
/// costs most.
class Buffer {
  public:
    /// `size` bytes whose address has the same place in a block as byte `offset` of a file, which
    /// direct I/O asks for; earlier contents are not kept.
    std::span<std::byte> get(Bytes size, Bytes offset = 0) {
        constexpr Bytes kBlock = io::kDirectBlock;
        if (bytes_.size() < size + 2 * kBlock) {
            bytes_.clear();
            bytes_.resize(size + 2 * kBlock);
        }
        const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
        const Bytes to_block = (kBlock - address % kBlock) % kBlock;
        return std::span(bytes_).subspan(to_block + offset % kBlock, size);
    }

  private:
    std::vector<std::byte> bytes_;
};

/// A slice of this rank's part of the line and where its elements are assembled, as stored.
struct Assembled {
    plan::Slice slice;
    std::span<std::byte> stored;
};

/// Received elements still to be put into place (or compared).
struct Unpack {
    layout::Copy copy;
    std::uint32_t element_bytes = 0;
    std::span<const std::byte> src;
    std::span<std::byte> dst;
    Index* n_different = nullptr;
};

/// Replica operands met in a round: which one, and the elements that differ.
struct Compared {
    std::uint32_t target = 0;
    std::uint32_t replica = 0;
    Index n_different = 0;
};

struct Round {
    std::vector<plan::LineRange> ranges;  ///< by owner; empty after the last round
    std::vector<Assembled> slices;        ///< this rank's own part
    std::vector<Move> reads;              ///< into slices and outgoing messages
    std::vector<Move>
        compares;  ///< replicas this rank reads for itself, after everything is in place
    std::vector<Unpack> unpacks;
    std::vector<Unpack> unpack_compares;
    std::vector<std::span<const std::byte>> to_send;  ///< by rank
    std::vector<std::span<std::byte>> to_receive;     ///< by rank
    std::deque<Compared> compared;                    ///< addresses stay valid
    double read_s = 0;                                ///< spent on `reads`
};

/// The buffers rounds use, one after another.
struct RoundBuffers {
    Buffer assembled, sent, received;
};

/// Lays out round `ranges` (one range per owner) for `rank`. Sender and receiver go through
/// operands in the same order, so no description travels with the data.
Round make_round(const plan::Plan& plan, std::vector<plan::LineRange> ranges, int rank,
                 RoundBuffers& buffers);

/// Where a slice's first byte lies in its file.
Bytes file_offset_of(const plan::Plan& plan, const plan::Slice& slice);

}  // namespace shardweld::execute

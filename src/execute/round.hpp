// One round of a plan for one rank: what to read, send, receive and assemble.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "io/output_file.hpp"
#include "plan/plan.hpp"

#include "reader.hpp"

namespace shardweld::execute {

/// Memory that is allocated once and reused: first touch of new pages is what costs most, and pages
/// that are never touched cost nothing.
class Buffer {
  public:
    /// `most`: the largest size that will be asked for, where it is known.
    explicit Buffer(Bytes most = 0) : most_(most) {}

    /// `size` bytes whose address has the same place in a block as byte `offset` of a file, which
    /// direct I/O asks for; earlier contents are not kept.
    ByteSpan get(Bytes size, Bytes offset = 0) {
        constexpr Bytes kBlock = io::kDirectBlock;
        if (allocated_ < size + 2 * kBlock) {
            bytes_.reset();
            allocated_ = 0;
            const Bytes wanted = std::max(size, most_) + 2 * kBlock;
            bytes_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
            allocated_ = wanted;
        }
        used_ = std::max(used_, size);
        const auto address = reinterpret_cast<std::uintptr_t>(bytes_.get());
        const Bytes to_block = (kBlock - address % kBlock) % kBlock;
        return std::span(bytes_.get(), allocated_).subspan(to_block + offset % kBlock, size);
    }

    /// The largest size asked for so far.
    [[nodiscard]] Bytes used() const { return used_; }

  private:
    std::unique_ptr<std::byte[]> bytes_;  // not initialised
    Bytes most_ = 0;
    Bytes allocated_ = 0;
    Bytes used_ = 0;
};

/// A slice of this rank's work (plan::work_of) and where what it is made of is assembled, as stored
/// and of one term; nowhere if there is nothing of that term.
struct StoredSlice {
    plan::Slice slice;
    ByteSpan stored;
};

/// Received elements still to be put into place (or compared).
struct Unpack {
    Move move;
    ByteView message;  ///< in which its source addresses are counted
};

struct Round {
    std::vector<plan::OutputRange> ranges;  ///< by owner; empty after the last round
    std::uint32_t term = 0;                 ///< of the plan's terms: the only one that is read
    std::vector<StoredSlice> slices;        ///< this rank's own part, behind one another in memory
    std::vector<Move> reads;                ///< into slices and outgoing messages
    std::vector<Move>
        compares;  ///< replicas this rank reads for itself, after everything is in place
    std::vector<Unpack> unpacks;
    std::vector<Unpack> unpack_compares;
    std::vector<ByteView> to_send;     ///< by rank
    std::vector<ByteSpan> to_receive;  ///< by rank
    std::deque<Difference> compared;   ///< replicas met; addresses stay valid
    double read_s = 0;                 ///< spent on `reads`
};

/// The buffers rounds use, one after another.
struct RoundBuffers {
    explicit RoundBuffers(const plan::Limits& limits)
        : assembled(limits.assembled), sent(limits.send), received(limits.receive) {}

    Buffer assembled, sent, received;

    [[nodiscard]] Bytes used() const { return assembled.used() + sent.used() + received.used(); }
};

/// Lays out round `ranges` (one range per owner) of a term for `rank`. Sender and receiver go
/// through operands in the same order, so no description travels with the data. Error(internal)
/// naming the tensor when operands do not fill this rank's part of it.
Round make_round(const plan::Plan& plan, std::vector<plan::OutputRange> ranges, std::uint32_t term,
                 int rank, RoundBuffers& buffers);

/// Where a slice's first byte lies in its file.
Bytes file_offset_of(const plan::Plan& plan, const plan::Slice& slice);

}  // namespace shardweld::execute

// Checksums of the output as it is written: xxh3-128 per block, per tensor over its blocks'
// digests. Knows bytes and block sizes; nothing of files or ranks.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/mpi/comm.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::execute {

using Digest = std::array<std::byte, 16>;

std::string hex(const Digest& digest);
Digest digest_of(std::span<const std::byte> bytes);

/// Digests of the blocks one rank owns; bytes arrive in line order.
class BlockDigests {
  public:
    explicit BlockDigests(const plan::Plan& plan);
    ~BlockDigests();
    BlockDigests(const BlockDigests&) = delete;
    BlockDigests& operator=(const BlockDigests&) = delete;
    BlockDigests(BlockDigests&&) = delete;
    BlockDigests& operator=(BlockDigests&&) = delete;

    /// The written bytes of a slice, in the order of the line.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes);

    /// Collective: every tensor's digest in hex, on rank 0 (empty elsewhere).
    std::vector<std::string> gather(mpi::Comm& comm) const;

  private:
    struct State;
    /// One finished block of a tensor.
    struct Block {
        Index number = 0;
        std::uint32_t tensor = 0;
        Digest digest{};
    };
    const plan::Plan& plan_;
    std::unique_ptr<State> state_;
    std::vector<Block> blocks_;
};

}  // namespace shardweld::execute

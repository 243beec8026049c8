// Checksums of the output as it is written: xxh3-128 per block of a tensor's bytes, per tensor
// over its blocks' digests. They depend on nothing but the tensors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "io/digest.hpp"
#include "mpi/comm.hpp"
#include "plan/plan.hpp"

#include "journal.hpp"
#include "written_output.hpp"

namespace shardweld::execute {

using io::digest_of;
using io::hex;

using plan::kDigestBlock;

/// Digests of the blocks that begin in one rank's run; bytes arrive in output order, and what is
/// left out are whole blocks. The end of a block whose beginning is another rank's is kept, less
/// than a block, until gather() hands it over.
class BlockDigests {
  public:
    /// Without `keeps_ends` such ends are forgotten: only whole blocks are wanted, and no gather().
    BlockDigests(const plan::Plan& plan, bool keeps_ends);

    /// The written bytes of a slice, in output order.
    void add(const plan::Slice& slice, ByteView bytes);

    /// A block that an earlier run has written.
    void add_done(const DoneBlock& block) { blocks_.push_back(block); }

    /// The whole blocks so far, in the order in which they were finished.
    [[nodiscard]] std::span<const DoneBlock> finished() const { return blocks_; }

    /// Hands over what is known of the bytes of this rank, at the end.
    [[nodiscard]] Written take_written();

    /// Memory of the block that another rank begins.
    [[nodiscard]] Bytes buffer_bytes() const { return fragment_.capacity(); }

    /// Collective: every tensor's digest in hex, on rank 0 (empty elsewhere).
    std::vector<std::string> gather(mpi::Comm& comm);

  private:
    /// What one rank has of the blocks at both ends of its run.
    struct Edges {
        Index fragment = kNone;  ///< number of the block that begins before the run
        Index open = kNone;      ///< number of the block begun and not finished
        Bytes fragment_bytes = 0;
        std::uint32_t fragment_tensor = 0;
        std::uint32_t open_tensor = 0;
    };
    static constexpr Index kNone = -1;

    void add_fragment(const plan::Slice& part, ByteView bytes);
    void finish_block();
    void complete(mpi::Comm& comm);
    static std::size_t beginner_of(const std::vector<Edges>& all, std::size_t rank);

    const plan::Plan& plan_;
    bool keeps_ends_;
    io::DigestStream stream_;
    ByteBuffer fragment_;
    Edges edges_;
    std::optional<BlockPart> first_;  ///< of the fragment
    Index end_ = 0;                   ///< of what was added last, in elements
    std::vector<DoneBlock> blocks_;
};

}  // namespace shardweld::execute

// Checksums of written tensors that their files state: known only when everything is written.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "execute/written_output.hpp"
#include "io/directory.hpp"
#include "mpi/comm.hpp"
#include "outputs/format.hpp"
#include "plan/plan.hpp"

namespace shardweld::execute {

/// A part of a frame at its offset in the file.
using StatedPart = std::pair<Bytes, ByteBuffer>;

/// A frame's parts as they are written: with the CRC-32 of tensors (`sums`, by tensor) in their
/// places, and the digits that follow from them.
std::vector<StatedPart> stated_parts(const outputs::Frame& frame,
                                     const std::map<std::uint32_t, std::uint32_t>& sums);

/// CRC-32 of the tensors that this rank has written parts of. Each part adds its own share to the
/// sum of the whole (crc32_moved), so that parts may come in any order from any rank.
class WrittenSums {
  public:
    explicit WrittenSums(const plan::Plan& plan) : plan_(plan) {}

    /// An OnSlice.
    void add(const plan::Slice& slice, ByteView bytes);

    /// Collective, once all is written. Every rank writes the frames of the files that it made,
    /// which create_files has left out, with checksums in their places, and adds them to
    /// `created`. Error(io), Error(space).
    void write_frames(mpi::Comm& comm, const io::Directory& directory, bool sync,
                      CreatedFiles& created) const;

  private:
    /// Collective. The CRC-32 of every tensor, on every rank.
    [[nodiscard]] std::map<std::uint32_t, std::uint32_t> gather(mpi::Comm& comm) const;

    const plan::Plan& plan_;
    std::map<std::uint32_t, std::uint32_t> sums_;  ///< by tensor
};

}  // namespace shardweld::execute

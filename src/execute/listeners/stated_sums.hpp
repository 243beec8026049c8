// Checksums of written tensors that their files state: known only when everything is written.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/index.hpp"
#include "execute/written_output.hpp"
#include "io/directory.hpp"
#include "mpi/comm.hpp"

namespace shardweld::plan {
struct Plan;
struct Slice;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// CRC-32 of the tensors that this rank has written parts of. Each part adds its own share to the
/// sum of the whole (crc32_moved), so that parts may come in any order from any rank.
class WrittenSums {
  public:
    explicit WrittenSums(const plan::Plan& plan) : plan_(plan) {}

    /// An OnSlice.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes);

    /// Collective, once all is written. Every rank writes the frames of the files that it made,
    /// which create_files has left out, with checksums in their places, and adds them to
    /// `created`. Error(io), Error(space).
    void write_frames(mpi::Comm& comm, const io::Directory& directory, bool sync,
                      CreatedFiles& created) const;

  private:
    /// Collective. The CRC-32 of every tensor, on every rank.
    [[nodiscard]] std::vector<std::uint32_t> gather(mpi::Comm& comm) const;

    const plan::Plan& plan_;
    std::map<std::uint32_t, std::uint32_t> sums_;  ///< by tensor
};

}  // namespace shardweld::execute

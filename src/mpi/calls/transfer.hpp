// Byte transfers whose sizes may exceed MPI's int counts, cut into pieces that fit.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mpi.h>

#include "core/index.hpp"
#include "mpi/messages.hpp"

namespace shardweld::mpi {

/// Bytes of one MPI call: large enough for full speed, small enough for int counts with room to
/// spare.
inline constexpr Bytes kPieceBytes = Bytes{1} << 28;

/// Bytes of `root` on every rank, at most `piece` (1 .. kPieceBytes) per call. Collective.
/// Error(memory) on all ranks when one cannot hold them.
ByteBuffer broadcast(MPI_Comm comm, ByteBuffer bytes, int root, Bytes piece = kPieceBytes);

/// Every rank's bytes in rank order; one call when all of them together fit `piece`, else one
/// broadcast per rank. Collective. Error(memory) on all ranks when one cannot hold them.
std::vector<ByteBuffer> all_gather(MPI_Comm comm, ByteView mine, Bytes piece = kPieceBytes);

/// How the bytes of a step travel.
enum class Route {
    automatic,  ///< collective where int displacements reach all spans on every rank, else point to
                ///< point
    collective,  ///< MPI_Alltoallv: requires that the spans of a side lie within 2 GiB
    pairwise,    ///< MPI_Irecv and MPI_Isend: spans may lie anywhere
};

/// Comm::exchange on a communicator. Collective.
Index exchange(MPI_Comm comm, const Messages& messages, Bytes limit,
               Route route = Route::automatic);

}  // namespace shardweld::mpi

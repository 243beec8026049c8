#include "memory_check.hpp"

#include <sys/mman.h>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/plan/footprint.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::app {

namespace {

// Lists of rounds and files, requests and fragments of messages.
constexpr Bytes kBeside = Bytes{1} << 20U;
constexpr Bytes kPeerBuffers = Bytes{64} << 10U;

/// Whether the system lets this process have so much more (ulimit -d, no overcommitment). What is
/// never touched takes nothing; a cgroup's limit is only felt when it is.
bool is_granted(Bytes bytes) {
    void* const place =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return place != MAP_FAILED && ::munmap(place, bytes) == 0;
}

}  // namespace

void require_memory(mpi::Comm& comm, const plan::Plan& plan) {
    mpi::collectively(comm, [&] {
        const Bytes buffers = plan::most_buffers(plan);
        const Bytes needed =
            buffers + kBeside + kPeerBuffers * static_cast<Bytes>(plan.n_ranks() - 1);
        if (!is_granted(needed)) {
            throw Error(
                ErrorCode::memory,
                "memory ran out before tensors were moved: buffers take " + human_bytes(buffers),
                "give the job more memory per rank or lower --memory_limit");
        }
    });
}

}  // namespace shardweld::app

// The ranks that work together.
#pragma once

#include <memory>

namespace shardweld {

namespace mpi {
class Comm;
}  // namespace mpi

/// A group of ranks: one process, or those that a launcher started. What takes a RankGroup is
/// collective: every rank calls it with the same request, but for paths, which may differ between
/// nodes. Calls come from one thread at a time. May be moved, not copied.
class RankGroup {
  public:
    explicit RankGroup(std::unique_ptr<mpi::Comm> ranks);
    ~RankGroup();
    RankGroup(RankGroup&& other) noexcept;
    RankGroup& operator=(RankGroup&& other) noexcept;
    RankGroup(const RankGroup&) = delete;
    RankGroup& operator=(const RankGroup&) = delete;

    /// This rank's number, from 0.
    [[nodiscard]] int rank() const;
    [[nodiscard]] int size() const;

    /// The library's own view of the ranks; no part of what programs rely on.
    [[nodiscard]] mpi::Comm& inner() const { return *ranks_; }

  private:
    std::unique_ptr<mpi::Comm> ranks_;
};

/// One rank, without MPI.
RankGroup serial();

/// MPI, from its initialisation to its end: one at a time, and once in a process. Reads the
/// launcher's variables; a process that no launcher started is one rank without MPI.
class MpiSession {
  public:
    /// Takes main's arguments as MPI_Init does, and leaves them as they are. Error(launch) where
    /// tasks were started that cannot reach one another.
    MpiSession(int argc, char** argv);

    [[nodiscard]] RankGroup& world() { return world_; }

  private:
    RankGroup world_;
};

}  // namespace shardweld

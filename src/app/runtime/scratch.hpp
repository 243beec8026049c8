// A temporary directory that all ranks see, for runs that have no target of their own.
#pragma once

#include <sys/types.h>

#include "core/path.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

/// Made by rank 0; gone with the object, whatever it holds. The object of a
/// process that was forked since leaves it alone.
class Scratch {
  public:
    /// Collective: below TMPDIR (else /tmp). Error(io) when it cannot be made, Error(launch) when
    /// the ranks do not all see it.
    explicit Scratch(mpi::Comm& comm);
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    static constexpr pid_t kNobody = -1;

    void remove() const noexcept;

    fs::path path_;
    pid_t maker_ = kNobody;
};

}  // namespace shardweld::app

// A temporary directory that all ranks see, for runs that have no target of their own.
#pragma once

#include <string>

#include <sys/types.h>

#include "core/path.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

/// Made by rank 0; gone with the object, whatever it holds, unless it is kept. The object of a
/// process that was forked since leaves it alone.
class Scratch {
  public:
    /// Collective: below TMPDIR (else /tmp). Error(io) when it cannot be made, Error(launch) when
    /// the ranks do not all see it.
    explicit Scratch(mpi::Comm& comm);
    /// Collective: below `directory`, its name beginning with `prefix`. Error(not_found) when there
    /// is no such directory, Error(target) when nothing may be made in it, Error(io),
    /// Error(launch).
    Scratch(mpi::Comm& comm, const fs::path& directory, const std::string& prefix);
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    Scratch(Scratch&&) = delete;
    Scratch& operator=(Scratch&&) = delete;
    ~Scratch();

    [[nodiscard]] const fs::path& path() const { return path_; }
    /// It stays.
    void keep() { maker_ = kNobody; }

  private:
    static constexpr pid_t kNobody = -1;

    /// Rank 0's path becomes everybody's, checked; `advice` says what to do else.
    void share(mpi::Comm& comm, const std::string& advice);

    fs::path path_;
    pid_t maker_ = kNobody;
};

}  // namespace shardweld::app

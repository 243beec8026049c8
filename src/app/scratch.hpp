// A temporary directory that all ranks see, for runs that have no target.
// Knows directories and ranks; nothing of what is put into it.
#pragma once

#include <filesystem>

#include "shardweld/mpi/comm.hpp"

namespace shardweld::app {

/// Made by rank 0 below TMPDIR (else /tmp); gone with the object, whatever it holds.
class Scratch {
  public:
    /// Collective. Error(io) when it cannot be made, Error(launch) when the ranks do not all see
    /// it.
    explicit Scratch(mpi::Comm& comm);
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    Scratch(Scratch&&) = delete;
    Scratch& operator=(Scratch&&) = delete;
    ~Scratch();

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    bool is_mine_ = false;
};

}  // namespace shardweld::app

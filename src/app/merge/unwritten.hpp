// A merge that writes nothing: found, read, bound and planned, its output's bytes made when they
// are asked for.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "app/messages/log.hpp"
#include "app/report/run.hpp"
#include "app/runtime/scratch.hpp"
#include "app/settings/job.hpp"
#include "execute/part_reader.hpp"
#include "execute/source.hpp"
#include "mpi/comm.hpp"

#include "state.hpp"

namespace shardweld::app {

/// The first output of a merge, by this process alone.
class Unwritten {
  public:
    /// Plans, gathers the factors of folds and the scales of codes, and reads weights whose scales
    /// are of whole ones. What is mounted has a place for an adapter beside the model. `check` is
    /// told of the plan before. Errors of a merge, and of `check`.
    Unwritten(std::unique_ptr<mpi::Comm> alone, Job job, Log log,
              const std::function<void(const Output&)>& check = {});
    ~Unwritten() = default;
    Unwritten(const Unwritten&) = delete;
    Unwritten& operator=(const Unwritten&) = delete;

    [[nodiscard]] const Run& run() const { return run_; }
    [[nodiscard]] Merge& merge() { return merge_; }
    [[nodiscard]] Output& output() { return merge_.first(); }
    [[nodiscard]] const Output& output() const { return merge_.first(); }
    [[nodiscard]] const plan::Plan& plan() const { return merge_.first().plan; }
    /// Any number of threads may read.
    [[nodiscard]] execute::PartReaders& readers() { return *readers_; }

  private:
    std::unique_ptr<mpi::Comm> comm_;
    Job job_;
    Log log_;
    Run run_;
    Merge merge_;
    std::optional<Scratch> scratch_;  ///< holds the factors of folds and codes
    execute::SourceFiles source_;
    std::optional<execute::PartReaders> readers_;
};

}  // namespace shardweld::app

// How far tensors have moved: for all that look on, and each rank's part for its own log.
// Knows a plan's sizes; nothing of what is run.
#pragma once

#include <string>

#include "log.hpp"
#include "progress.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

class RunProgress {
  public:  /// Begins a phase.
    RunProgress(const std::string& phase, const plan::Plan& plan, int rank, Progress& progress,
                Log& log);
    ~RunProgress() { progress_.end(); }
    RunProgress(const RunProgress&) = delete;
    RunProgress& operator=(const RunProgress&) = delete;
    RunProgress(RunProgress&&) = delete;
    RunProgress& operator=(RunProgress&&) = delete;

    /// `done` bytes of this rank's part are finished.
    void update(Bytes done);

  private:
    Progress& progress_;
    Log& log_;
    std::string own_share_;
    double noted_;  ///< when a line was last put into the rank's log
};

}  // namespace shardweld::app

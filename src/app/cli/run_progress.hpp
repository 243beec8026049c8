// How far a run is, told to people: the whole on the terminal, each rank's part in its own log.
// Knows a plan's sizes and a log; nothing of what is run.
#pragma once

#include <string>

#include "shardweld/plan/plan.hpp"

#include "log.hpp"
#include "progress.hpp"

namespace shardweld::app {

class RunProgress {
  public:
    RunProgress(const plan::Plan& plan, int rank, Log& log);

    /// `done` bytes of this rank's part are finished.
    void update(Bytes done);
    /// All ranks' parts are.
    void finish() { progress_.finish(); }

  private:
    Log& log_;
    Progress progress_;
    std::string own_share_;
    double noted_;  ///< when a line was last put into the rank's log
};

}  // namespace shardweld::app

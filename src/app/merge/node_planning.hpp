// One rank plans for all that see the same files, and hands them its plans.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "mpi/comm.hpp"

#include "state.hpp"

namespace shardweld::app {

struct PlanTransfer;

/// Which ranks read, bind and plan, and for which others.
class NodePlanning {
  public:
    /// Collective; the checkpoints are found. All ranks plan where there is nobody to hand plans
    /// to, or they cannot travel: what is made are models, not training checkpoints.
    NodePlanning(const Run& run, Merge& merge);

    /// Collective. The planners do `steps`, as a run of their own that writes into this one's log
    /// and report; then every rank has what moving tensors takes.
    void plan(const std::function<void(const Run& planners)>& steps);

  private:
    void hand_over();
    /// What a planner's bytes stand for, once for all ranks beside it where they can have memory in
    /// common, else for each rank.
    [[nodiscard]] std::shared_ptr<PlanTransfer> shared(ByteBuffer bytes) const;

    const Run& run_;
    Merge& merge_;
    HostGroups hosts_;
    bool is_once_ = false;
    std::unique_ptr<mpi::Comm> planners_;  ///< null on other ranks
    std::unique_ptr<mpi::Comm> beside_;    ///< a planner, the first of them, and its neighbours
    RankMemory memory_ = RankMemory::measured_at_start();
};

}  // namespace shardweld::app

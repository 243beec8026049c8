// Planning once a node: of the ranks that see the same files one reads the metadata and plans, and
// the others get what they need.
#pragma once

#include <memory>
#include <optional>

#include "app/survey/survey.hpp"

#include "planned.hpp"

namespace shardweld::app {

class NodePlanning {
  public:
    /// Collective. `sources` say who sees the same files.
    NodePlanning(const Session& session, const PlanRequest& request, const Sources& sources);

    /// Whether this rank plans.
    [[nodiscard]] bool is_planner() const { return planners_ != nullptr; }
    /// Local, a planner's: the sources for these ranks alone, and their session, which writes into
    /// the run's log and report.
    void leave_to_planners(Sources& sources) const;
    [[nodiscard]] Session session_of_planners() const;
    /// Collective. The planners' plan of one output for all ranks, also on those beside them, whose
    /// `planned` is empty so far.
    void hand_over(Planned& planned) const;

  private:
    /// Collective. The planner's plan on the ranks beside it, with all operands or their own.
    void hand_over(plan::Plan& plan, bool is_whole) const;
    /// Collective. A plan with all operands, where the planner has it.
    void hand_over(std::optional<plan::Plan>& plan) const;

    Session session_;
    HostGroups hosts_;
    bool is_cut_anew_;                     ///< the line: the plan's owners may be others
    std::unique_ptr<mpi::Comm> planners_;  ///< null on other ranks
    std::unique_ptr<mpi::Comm> beside_;    ///< a planner, the first of them, and its neighbours
    MemoryMeter meter_;
};

/// Local, the same on all ranks. Whether there is anybody to hand a plan to, and it is of a form
/// that can travel: one output of the default format.
bool plans_once_a_node(const Outputs& outputs, const PlanRequest& request, const Sources& sources);

}  // namespace shardweld::app

// Planning once a node: of the ranks that see the same files one reads the metadata and plans, and
// the others get what they need.
#pragma once

#include <functional>

#include "planned.hpp"

namespace shardweld::app {

/// Local, the same on all ranks. Whether there is anybody to hand a plan to, and it is of a form
/// that can travel: one output of the default format.
bool plans_once_a_node(const Outputs& outputs, const PlanRequest& request, const Sources& sources);

/// Plans for the outputs of a session of fewer ranks, which is the planners' part of the run's.
using PlanByPlanners =
    std::function<Planned(Session planners, Sources sources, const HostGroups& hosts)>;

/// Collective. One rank of those that see the same files plans with the others that do so; every
/// rank has what moving tensors takes. `resources`: of the ranks that are here.
Planned planned_once_a_node(const Session& session, const PlanRequest& request, Sources sources,
                            const Resources& resources, const PlanByPlanners& plan);

}  // namespace shardweld::app

// The fourth step of the main path, plan: outputs with their plans, all that is known before the
// first tensor byte moves. Of the ranks that see the same files one may plan for the others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "app/survey/input.hpp"
#include "plan/plan.hpp"
#include "publish/config_edits.hpp"

#include "bound_model.hpp"
#include "sources.hpp"

namespace shardweld::app {

/// One model that is made, written or compared.
struct Output {
    Session session;   ///< what is asked for, and its report
    BoundModel model;  ///< its targets are the plan's
    plan::Plan plan;
    std::optional<plan::Plan> measured;  ///< NVFP4: of the weights whose largest values come first
    plan::PlanChoice choice;             ///< that the plan was made by
    std::string config_text;             ///< config.json as it is written

    /// What the written config.json has to say.
    [[nodiscard]] publish::Facts facts() const;
    /// The first of its architectures, "" for none.
    [[nodiscard]] std::string model_class() const;
    /// What it says of tie_word_embeddings; nullopt: nothing.
    [[nodiscard]] std::optional<bool> ties() const;
    /// Whether it gets a README.md, whose text is known behind the tensors.
    [[nodiscard]] bool gets_card() const;
    /// All files beside the tensors but that. Local.
    [[nodiscard]] std::vector<publish::Asset> assets() const;
};

/// All that is known before the first tensor byte moves.
struct Planned {
    std::shared_ptr<void> handed;  ///< where plans and input lie that another rank has made
    Input input;
    std::vector<Output> outputs;
    std::optional<plan::Plan> factors;  ///< of a fold's factors, which are gathered first
    std::optional<plan::Plan> norms;    ///< of weights that pieces of are folded (DoRA)
    std::vector<std::string> trace;     ///< --trace
    bool holds_adapter_only = false;    ///< nothing but an adapter, without a base
    Resources resources = {};           ///< of the ranks that move the tensors

    [[nodiscard]] Output& first() { return outputs.front(); }
    [[nodiscard]] const Output& first() const { return outputs.front(); }
    /// Numbers of outputs that are made in the same rounds, those of the first of them: models are
    /// made of one read, each training checkpoint of a read of its own.
    [[nodiscard]] std::vector<std::vector<std::size_t>> runs() const;
    /// The size of the file with a fold's factors, which lies beside the first output meanwhile; 0:
    /// none.
    [[nodiscard]] Bytes factor_bytes() const {
        return factors ? factors->placement.total_bytes() : 0;
    }
    /// The memory that a rank will take; `ranks_on_node`: where they are others than planned for.
    [[nodiscard]] MemoryForecast forecast(const mpi::Comm& comm,
                                          std::optional<int> ranks_on_node = {}) const;
};

/// What plans are chosen by where ranks have these resources.
plan::PlanChoice choice_for(const Outputs& outputs, const PlanRequest& request, const Input& input,
                            const Resources& resources);

/// The ranks that a plan is made for.
struct Workers {
    const Resources& resources;       ///< of the ranks that are here
    std::optional<HostGroups> hosts;  ///< of those that move tensors, where these are more
};

/// Collective. A plan for each output, whose `models` are bound to what was read; config.json is
/// true of what will be written.
Planned plan_models(const Outputs& outputs, const PlanRequest& request, Sources read,
                    std::vector<BoundModel> models, const Workers& workers);

/// Collective. The plan of a model whose tensors stay as they are stored.
Planned plan_as_stored(Session& session, const PlanRequest& request, Input input,
                       std::vector<plan::Target> targets);

/// Local. Puts the plans into the first rank's reports.
void report_plans(const Planned& planned);

/// Says what will be written, and where a dtype would be told that --dtype does not name.
void say_plans(const Planned& planned);

/// Local, the same on all ranks. Whether there is anybody to hand plans to, and they can travel:
/// what is made are models, not training checkpoints.
bool plans_once_a_node(const Outputs& outputs, const Sources& sources);

/// Plans for outputs' sessions of fewer ranks, which are the planners' part of the run's.
using PlanByPlanners =
    std::function<Planned(const Outputs& planners, Sources sources, const HostGroups& hosts)>;

/// Collective. One rank of those that see the same files plans with the others that do so; every
/// rank has what moving tensors takes. `resources`: of the ranks that are here.
Planned planned_once_a_node(const Outputs& outputs, const PlanRequest& request, Sources sources,
                            const Resources& resources, const PlanByPlanners& plan);

}  // namespace shardweld::app

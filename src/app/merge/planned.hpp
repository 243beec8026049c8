// What a run asks for, what it starts from, and all that is known before the first tensor byte
// moves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/family/model.hpp"
#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "app/survey/input.hpp"
#include "plan/plan.hpp"
#include "publish/config_edits.hpp"

#include "bound_model.hpp"
#include "mixed_model.hpp"

namespace shardweld::app {

/// Ranks that are planned for and are not here.
struct PlannedRanks {
    int n_ranks = 1;
    Resources resources;
};

/// In what merge, test and plan differ until the first tensor byte moves.
struct PlanRequest {
    Destination sink = Destination::model;
    bool halves_memory = false;              ///< the other half reads a model to compare with
    std::optional<PlannedRanks> ranks = {};  ///< move the tensors; nullopt: the session's do
};

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
    /// What it says of tie_word_embeddings; nullopt: nothing.
    [[nodiscard]] std::optional<bool> ties() const;
    /// That the output is wider than config.json says, with its size in that type; "" if it is not.
    [[nodiscard]] std::string dtype_note() const;
    /// All files beside the tensors. Local.
    [[nodiscard]] std::vector<publish::Asset> assets() const;
};

/// All that is known before the first tensor byte moves.
struct Planned {
    Input input;
    /// The first is made of what is read, the others of the same bytes on their way to it.
    std::vector<Output> outputs;
    std::optional<plan::Plan> factors;  ///< of a fold's factors, which are gathered first
    std::vector<std::string> trace;     ///< --trace
    bool holds_adapter_only = false;    ///< nothing but an adapter, without a base
    Resources resources = {};           ///< of the ranks that move the tensors

    [[nodiscard]] Output& first() { return outputs.front(); }
    [[nodiscard]] const Output& first() const { return outputs.front(); }
    /// The size of the file with a fold's factors, which lies beside the first output meanwhile; 0:
    /// none.
    [[nodiscard]] Bytes factor_bytes() const {
        return factors ? factors->placement.total_bytes() : 0;
    }
    /// The memory that a rank will take; `ranks_on_node`: where they are others than planned for.
    [[nodiscard]] MemoryForecast forecast(const mpi::Comm& comm,
                                          std::optional<int> ranks_on_node = {}) const;
};

/// All that is known before the checkpoint's metadata are read.
struct Sources {
    FoundCheckpoint checkpoint;
    std::vector<OtherCheckpoint> others;  ///< --average, --delta
    std::optional<FoundCheckpoint> base;  ///< --base
    /// The model's; nullopt: with --base the checkpoint's metadata tell whose they are.
    std::optional<ModelFiles> files;
};

}  // namespace shardweld::app

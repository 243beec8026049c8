// What a run asks for, what it starts from, and all that is known before the first tensor byte
// moves. Values; which steps make them is main_path's business.
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

/// Ranks that are not here.
struct Crew {
    int n_ranks = 1;
    Resources resources;
};

/// In what runs that go this way differ.
struct Terms {
    Destination sink = Destination::model;
    bool halves_memory = false;     ///< the other half reads a model to compare with
    std::optional<Crew> crew = {};  ///< moves the tensors; nullopt: the session's ranks do
};

/// All that is known before the first tensor byte moves.
struct Planned {
    Input input;
    BoundModel model;  ///< its targets are the plan's
    plan::Plan plan;
    std::optional<plan::Plan> factors;   ///< of a fold's factors, which are gathered first
    std::optional<plan::Plan> measured;  ///< NVFP4: of the weights whose largest values come first
    plan::PlanChoice choice;             ///< that the plan was made by
    std::vector<std::string> trace;      ///< --trace
    bool holds_adapter_only = false;     ///< nothing but an adapter, without a base
    std::string config_text;             ///< config.json as it is written
    Resources resources = {};            ///< of the ranks that move the tensors
    std::vector<Planned> also = {};      ///< the other outputs, in the order of Session::also

    /// Of the file with a fold's factors, which lies beside the output meanwhile; 0: none.
    [[nodiscard]] Bytes factor_bytes() const {
        return factors ? factors->placement.total_bytes() : 0;
    }
    /// What the written config.json has to say.
    [[nodiscard]] publish::Facts facts() const;
    /// What it says of tie_word_embeddings; nullopt: nothing.
    [[nodiscard]] std::optional<bool> ties() const;
    /// That the output is wider than config.json says, with its size in that type; "" if it is not.
    [[nodiscard]] std::string dtype_note() const;
    /// All files beside the tensors. Local.
    [[nodiscard]] std::vector<publish::Asset> assets() const;
    /// The memory that a rank will take; `ranks_on_node`: where they are others than planned for.
    [[nodiscard]] MemoryForecast forecast(const mpi::Comm& comm,
                                          std::optional<int> ranks_on_node = {}) const;
};

/// Output `at` of a merge: the first, or one of --also.
inline Planned& output_of(Planned& planned, std::size_t at) {
    return at == 0 ? planned : planned.also[at - 1];
}
inline const Planned& output_of(const Planned& planned, std::size_t at) {
    return at == 0 ? planned : planned.also[at - 1];
}

/// All that is known before the checkpoint's metadata are read.
struct Sources {
    FoundCheckpoint checkpoint;
    std::vector<OtherCheckpoint> others;  ///< --average, --delta
    std::optional<FoundCheckpoint> base;  ///< --base
    /// The model's; nullopt: with --base the checkpoint's metadata tell whose they are.
    std::optional<ModelFiles> files;
};

}  // namespace shardweld::app

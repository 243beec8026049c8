// The first two steps of the main path, find and survey: the checkpoint, those that are mixed into
// it, the base of an adapter, and the small files of the model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/family/checkpoint_template.hpp"
#include "app/family/model.hpp"
#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "app/survey/checkpoint.hpp"
#include "app/survey/input.hpp"

namespace shardweld::app {

/// What is read, and in what merge, test and plan differ until the first tensor byte moves.
struct PlanRequest {
    formats::JobInput checkpoint = {};
    std::optional<fs::path> base = {};  ///< --base
    Purpose sink = Purpose::model;
    bool halves_memory = false;  ///< the other half reads a model to compare with
    int n_ranks = 0;             ///< that move the tensors and are not here; 0: the session's do
    Resources resources = {};    ///< of those
};

/// How a merge is planned that the session's ranks make.
PlanRequest merge_request(const Job& job);

/// What a merge is made of: its checkpoints and the small files of its model. find_sources makes
/// it, survey_sources completes it.
struct Sources {
    /// The one that is merged first, then the base of an adapter, those that are mixed (the base of
    /// --delta first), the template, and the reference that has what the checkpoint lacks.
    std::vector<Checkpoint> inputs;
    /// The model's; nullopt until they are read: with --base the checkpoint's metadata tell whose
    /// they are.
    std::optional<ModelFiles> files = {};

    // When the metadata are read. Catalogues move into a binding.
    Input input = {};
    std::shared_ptr<const CheckpointTemplate> like = {};
    std::shared_ptr<const Checkpoint> supplement = {};
    bool holds_adapter_only = false;

    [[nodiscard]] Checkpoint& weights() { return inputs.front(); }
    [[nodiscard]] const Checkpoint& weights() const { return inputs.front(); }
};

/// Collective. Finds the checkpoints and the files of the model, which are right as far as they
/// show it themselves. Error as by find_checkpoint, read_model_files and check_model_files.
Sources find_sources(Session& session, const PlanRequest& request);

/// Collective. Holds the sums that a save lists of its files against them.
void check_sums(Session& session, Sources& sources);

/// Collective. Reads the metadata, and what of the model's files they ask for. The report and the
/// log say what was found. Errors as by read_checkpoint, read_model_files and require_config;
/// Error(usage) where a checkpoint with a base of its own is compared, Error(unsupported) where the
/// base has other names.
void survey_sources(Session& session, const PlanRequest& request, Sources& sources);

}  // namespace shardweld::app

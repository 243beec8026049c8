// The first two steps of the main path, find and survey: the checkpoint, those that are mixed into
// it, the base of an adapter, and the small files of the model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/family/checkpoint_template.hpp"
#include "app/family/model.hpp"
#include "app/family/supplement.hpp"
#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/options.hpp"
#include "app/survey/input.hpp"
#include "app/survey/survey.hpp"

namespace shardweld::app {

/// What is read, and in what merge, test and plan differ until the first tensor byte moves.
struct PlanRequest {
    formats::InputRequest checkpoint = {};
    std::optional<fs::path> base = {};  ///< --base
    Destination sink = Destination::model;
    bool halves_memory = false;  ///< the other half reads a model to compare with
    int n_ranks = 0;             ///< that move the tensors and are not here; 0: the session's do
    Resources resources = {};    ///< of those
};

/// How a merge is planned that the session's ranks make.
PlanRequest merge_request(const Options& options);

/// All that is known before the checkpoint's metadata are read.
struct Sources {
    FoundCheckpoint checkpoint;
    std::vector<FoundCheckpoint> others;             ///< --average, --delta
    std::optional<FoundCheckpoint> base;             ///< --base
    std::optional<FoundCheckpoint> like = {};        ///< --like
    std::optional<FoundCheckpoint> supplement = {};  ///< --supplement
    /// The model's; nullopt: with --base the checkpoint's metadata tell whose they are.
    std::optional<ModelFiles> files;

    /// All that are found, the checkpoint first.
    [[nodiscard]] std::vector<const FoundCheckpoint*> all() const;
};

/// Collective. Finds the checkpoint and the files of its model, which are right as far as they show
/// it themselves. Error as by find_checkpoint, read_model_files and check_model_files.
Sources find_sources(Session& session, const PlanRequest& request);

/// Collective. Holds the sums that a save lists of its files against them.
void check_sums(Session& session, Sources& sources);

/// A checkpoint's metadata, which move into a binding, and all that stays.
struct SurveyedSources {
    Survey survey;
    std::optional<formats::Location> base = {};  ///< --base, of an adapter
    bool holds_adapter_only = false;
    std::vector<Survey> others = {};                      ///< that are mixed into it
    std::shared_ptr<const CheckpointTemplate> like = {};  ///< --like
    std::shared_ptr<const Supplement> supplement = {};    ///< --supplement
    Input input = {};
    ModelFiles files = {};
};

/// Collective. Reads the metadata, and what of the model's files they ask for. The report and the
/// log say what was found. Errors as by survey, read_model_files and require_config; Error(usage)
/// where a checkpoint with a base of its own is compared, Error(unsupported) where the base has
/// other names.
SurveyedSources survey_sources(Session& session, const PlanRequest& request, Sources sources);

}  // namespace shardweld::app

// Checkpoints beside the first: the model of an adapter (--base), and several that become one model
// (--average, --delta). Each is found and surveyed as if it were alone.
#pragma once

#include <optional>
#include <vector>

#include "app/family/model.hpp"
#include "app/report/session.hpp"
#include "app/settings/options.hpp"
#include "app/survey/input.hpp"
#include "app/survey/survey.hpp"
#include "plan/choice.hpp"

#include "bound_model.hpp"

namespace shardweld::app {

/// A checkpoint beside the first one.
struct OtherCheckpoint {
    fs::path directory;  ///< as it was given
    FoundCheckpoint found;
};

/// A checkpoint beside the first one whose metadata are read.
struct SurveyedCheckpoint {
    fs::path directory;
    Survey survey;
};

/// Collective. The base of --delta comes first, then the others in their order. Errors as
/// find_checkpoint.
std::vector<OtherCheckpoint> find_others(Session& session);

/// Collective. Their files are put behind those of `first`.
std::vector<SurveyedCheckpoint> survey_others(Session& session, std::vector<OtherCheckpoint> others,
                                              Survey& first);

/// Collective. The lead's model, whose tensors are mixed of its own and the others'; the report has
/// each checkpoint's part. Errors as plan::mixed; Error(mismatch) where integers or booleans
/// differ.
BoundModel mix_in(Session& session, const Input& input, BoundModel lead,
                  std::vector<SurveyedCheckpoint> others, const plan::PlanChoice& choice);

/// Whether --base is the model of a checkpoint that holds an adapter alone; else a merge compares
/// with it. Error(usage) where another model is compared with.
bool is_base_of_adapter(const Options& options, Destination sink,
                        const catalogue::Catalogue& checkpoint);

/// Where --base is looked for: a HuggingFace model directory.
formats::InputRequest base_request(const Options& options);

/// Puts the base's tensors and files into a checkpoint's survey; the files keep their visibility.
/// Error(unsupported) when the base has other names.
void add_base(Survey& checkpoint, Survey base);

}  // namespace shardweld::app

// Several checkpoints that become one model (--average, --delta): each is found, surveyed and bound
// as if it were alone, then their bindings are mixed.
#pragma once

#include <vector>

#include "app/report/session.hpp"
#include "app/survey/input.hpp"
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

}  // namespace shardweld::app

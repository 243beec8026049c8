// A surveyed checkpoint whose tensors are bound to its model, tied tensors settled, and the forms
// in which it is written: codes and scales, llama.cpp's, and those of --also.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/family/bind_model.hpp"
#include "app/family/model.hpp"
#include "app/report/session.hpp"
#include "app/survey/input.hpp"
#include "catalogue/catalogue.hpp"
#include "plan/choice.hpp"

namespace shardweld::app {

/// A model whose tensors are bound.
struct BoundModel {
    ModelFiles files;
    PreparedModel prepared;
    Bound bound;
    std::vector<std::string> trace;  ///< --trace: what is stored of it
    /// What was bound: until it is known whether head and embedding are one, and then where it is
    /// bound in another form, too.
    std::optional<catalogue::Catalogue> kept;
};

/// Collective. Binds; copies that must equal another tensor are compared with it, by the ranks that
/// are here, and bound anew as tensors of their own where they differ. `catalogue` moves into the
/// result; its files are those of `input`.
BoundModel bind_checkpoint(Session& session, const Input& input, ModelFiles files,
                           const ModelChoice& wanted, catalogue::Catalogue catalogue,
                           const plan::PlanChoice& choice);

/// Collective. What all passes so far have read is held against the records' checksums, and the
/// report counts them; nothing where they are not checked. Error(corrupt), Error(stopped).
void report_what_was_read(Session& session, const Input& input, const mpi::WhyStop& why_stop);

/// A model for each output, of what is bound for the first: in the form that --quantize asks for,
/// every tensor of the others made of what is read for the first. Local. Errors as plan::bind and
/// plan::share_strips.
std::vector<BoundModel> output_models(const Outputs& outputs, BoundModel model);

}  // namespace shardweld::app

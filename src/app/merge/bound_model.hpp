// A surveyed checkpoint whose tensors are bound to its model, tied tensors settled.
// Knows the order of the steps; nothing of other checkpoints or of where finished tensors go.
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

}  // namespace shardweld::app

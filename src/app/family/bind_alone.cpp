#include "bind_alone.hpp"

#include <string>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "plan/bind/dequantise.hpp"
#include "shardweld/error.hpp"

#include "bind_options.hpp"
#include "quantised.hpp"
#include "supplement.hpp"
#include "unread_quantisation.hpp"

namespace shardweld::app {

namespace {

/// Makes values of weights that are stored as codes.
void dequantise(const std::vector<plan::EncodedWeight>& weights, Bound& bound) {
    if (!weights.empty()) {
        bound.factors = plan::make_of_codes(bound.binding, weights, kFactors);
        bound.notes.push_back(counted(weights.size(), "weight") +
                              " are stored as codes and scales: they are written as bf16");
    }
}

/// Weights that do not fit because they are codes are no fault of config.json.
plan::Binding bind_of_floats(catalogue::Catalogue catalogue, const PreparedModel& prepared,
                             const plan::BindOptions& options) {
    const QuantisationTrace trace = integer_trace(catalogue);
    try {
        return plan::bind(std::move(catalogue), prepared.model(), options);
    } catch (const Error& error) {
        if (trace.tensor.empty() || error.code() != ErrorCode::mismatch) {
            throw;
        }
        refuse_unread(prepared.config, trace);
    }
}

}  // namespace

void bind_alone(const PreparedModel& prepared, const ModelFiles& files, const Job& job,
                catalogue::Catalogue catalogue, Bound& bound) {
    const bool is_copied = prepared.recipe->hub.empty() && !prepared.choice.output.dtype;
    const auto idle = is_copied ? std::vector<std::string>() : plan::leave_idle_scales(catalogue);
    const auto encoded = encoded_weights(prepared, job, catalogue);
    plan::BindOptions bind_options = bind_options_of(prepared);
    bind_options.spelled = spelling_of(prepared, files);
    bind_options.keeps_padding = job.inputs.front().state != formats::TakenState::weights;
    if (const auto& reference = prepared.choice.supplied) {
        bound.binding = bind_supplemented(prepared, files, bind_options, std::move(catalogue));
        bound.told.push_back(supplement_text(*reference, bound.binding));
    } else {
        bound.binding = bind_of_floats(std::move(catalogue), prepared, bind_options);
    }
    dequantise(encoded, bound);
    if (!idle.empty()) {
        bound.binding.warnings.push_back(
            {"scales_unused", idle.front(),
             counted(idle.size(), "weight") + " " + verb_of(idle.size(), "is", "are") +
                 " stored as values beside scales, which are left out: " + listed(idle) +
                 "; compressed-tensors saves a model so after a forward pass"});
    }
}

}  // namespace shardweld::app

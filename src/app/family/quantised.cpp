#include "quantised.hpp"

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/plan/quantise.hpp"

#include "../cli/selection.hpp"
#include "bind_model.hpp"

namespace shardweld::app {

std::vector<plan::EncodedWeight> encoded_weights(const models::Config& config,
                                                 const Options& options,
                                                 catalogue::Catalogue& catalogue) {
    if (!options.dtype) {
        return {};
    }
    auto weights = plan::take_encoded(
        catalogue, config.integer("quantization_config.config_groups.group_0.weights.num_bits"));
    if (!weights.empty() && (*options.dtype != DType::bf16 || options.quantise)) {
        throw Error(ErrorCode::unsupported,
                    weights.front().name + " is stored as codes and scales, which become bf16 only",
                    options.quantise ? "write the model with --dtype bf16 first"
                                     : "give --dtype bf16, or leave it out to keep the codes");
    }
    return weights;
}

void dequantise_bound(const std::vector<plan::EncodedWeight>& weights, Bound& bound) {
    if (weights.empty()) {
        return;
    }
    bound.factors = plan::make_of_codes(bound.binding, weights, kFactors);
    bound.notes.push_back(counted(weights.size(), "weight") +
                          " are stored as codes and scales: they are written as bf16");
}

void quantise_bound(const PreparedModel& prepared, const Options& options, Bound& bound) {
    if (!options.quantise) {
        return;
    }
    const Selection left{std::nullopt, options.quantise_ignore};
    bound.quantisation = plan::quantise(
        bound.binding.targets, prepared.model(), *options.quantise,
        [is_taken = selects(left)](const std::string& name) { return !is_taken(name); });
    const plan::Quantisation& made = *bound.quantisation;
    bound.notes.push_back(counted(static_cast<std::size_t>(made.n_quantised), "weight") +
                          " are written as " + std::string(facts_of(made.encoding).name));
    bound.notes.insert(bound.notes.end(), made.notes.begin(), made.notes.end());
}

}  // namespace shardweld::app

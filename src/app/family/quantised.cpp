#include "quantised.hpp"

#include <algorithm>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"

namespace shardweld::app {

std::vector<plan::EncodedWeight> encoded_weights(const models::Config& config,
                                                 const Options& options,
                                                 catalogue::Catalogue& catalogue) {
    const bool quantises = options.quantise || std::ranges::any_of(options.also, [](auto& also) {
                               return also.quantise.has_value();
                           });
    const bool has_others = std::ranges::any_of(
        options.also, [&](auto& also) { return also.dtype && also.dtype != options.dtype; });
    if (!options.dtype && !quantises && !has_others) {
        return {};
    }
    auto weights = plan::take_encoded(
        catalogue, config.integer("quantization_config.config_groups.group_0.weights.num_bits"));
    if (!weights.empty() && (options.dtype != DType::bf16 || quantises || has_others)) {
        throw Error(ErrorCode::unsupported,
                    weights.front().name + " is stored as codes and scales, which become bf16 only",
                    quantises ? "write the model with --dtype bf16 first"
                              : "give --dtype bf16, or leave it out to keep the codes");
    }
    return weights;
}

}  // namespace shardweld::app

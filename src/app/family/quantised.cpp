#include "quantised.hpp"

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"

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

}  // namespace shardweld::app

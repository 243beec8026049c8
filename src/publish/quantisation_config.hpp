// What config.json says of quantised weights, as the servers that read them expect it. Facts:
// field names of transformers 5.23 and compressed-tensors 0.20.
#pragma once

#include <string>
#include <vector>

#include "core/encoding.hpp"

namespace shardweld::publish {

/// The value of quantization_config as JSON. `kept`: modules whose matrices stay as they are, which
/// it lists under each name that readers look at.
std::string quantisation_config(Encoding encoding, const std::vector<std::string>& kept);

}  // namespace shardweld::publish

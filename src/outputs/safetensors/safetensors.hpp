// Safetensors files as transformers loads them. Format: safetensors 0.8, README and tensor.rs.
#pragma once

#include "outputs/format.hpp"

namespace shardweld::outputs {

/// Tensors are packed greedily into files of at most max_shard_size tensor bytes (a larger tensor
/// stands alone); inside a file by element size descending, then natural name. Headers are padded
/// with spaces so that data begins at a multiple of 4096. Several files get
/// model.safetensors.index.json. Error(unsupported) when a header would exceed the format's 100 MB.
const Format& safetensors_format();

}  // namespace shardweld::outputs

// What a safetensors file says beside its tensors, in `__metadata__`: which of it loading needs,
// and what else is lost where the tensors are written into other files. Sources: safetensors 0.8
// (save_model), huggingface_hub 2.4 (save_torch_state_dict), torchao 0.18 (safetensors_support),
// torch 2.15 (HuggingFaceStorageWriter).
#pragma once

#include <string>
#include <vector>

#include "formats/containers/safetensors_header.hpp"

namespace shardweld::formats::hf {

/// The keys that nothing written stands for: neither `format`, which every file gets, nor names of
/// tensors that are another one of the file's. Error(unsupported) where the tensors are parts of
/// objects whose classes only the metadata names.
std::vector<std::string> lost_metadata(const SafetensorsHeader& header);

}  // namespace shardweld::formats::hf

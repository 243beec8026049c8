// One weight file of a HuggingFace model: safetensors, or a dictionary written by torch.save.
// Knows the containers; nothing of other files.
#pragma once

#include <string>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"

namespace shardweld::formats::hf {

/// The file and its tensors, one piece each (none for an empty tensor). Errors name file and
/// tensor: Error(corrupt), Error(unsupported) as of the containers' readers.
catalogue::Catalogue scan_weights(const Location& location, const std::string& file);

}  // namespace shardweld::formats::hf

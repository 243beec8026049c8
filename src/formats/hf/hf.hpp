// HuggingFace model directories as an input.
#pragma once

#include "shardweld/formats/format.hpp"

namespace shardweld::formats::hf {

/// "huggingface": config.json with safetensors or torch files, with or without an index.
const Format& hf_format();

}  // namespace shardweld::formats::hf

// PEFT's own directories of one adapter: adapter_model.safetensors (or .bin) and
// adapter_config.json. Knows file names; what the tensors mean is the adapters module's.
// Source: peft 0.20 src/peft/peft_model.py (save_pretrained), utils/save_and_load.py.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::hf {

/// "peft": read where a directory holds nothing that is merged otherwise.
const Format& adapter_format();

}  // namespace shardweld::formats::hf

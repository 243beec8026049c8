// JSON files of checkpoints as values.
// Knows limits; of fields only what tells a trainer's config.json from a model's.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "core/path.hpp"

namespace shardweld::formats {

/// The value; a discarded one (is_discarded()) when the text is not valid JSON or nested deeper
/// than any file of a checkpoint. `visit` may take values out while the text is read, so that large
/// ones are never in memory as a tree.
nlohmann::json parse_json(std::string_view text,
                          const nlohmann::json::parser_callback_t& visit = nullptr);

/// Whether a config.json describes a run, in which the model is one object, and no HuggingFace
/// model: OLMo-core's (train/callbacks/config_saver.py). Local; false where it cannot be read.
bool is_run_config(const fs::path& file);

}  // namespace shardweld::formats

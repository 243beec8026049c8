// README.md of a written model: what the Hub shows of it, and where it came from.
#pragma once

#include <string>

#include "report.hpp"

namespace shardweld::app {

/// The card's file name.
inline constexpr const char* kModelCard = "README.md";

/// Markdown behind a head of YAML, as the Hub reads it (huggingface.co/docs/hub/model-cards). It
/// tells only what decides the model's bytes and what was found about them: it is the same at any
/// number of ranks, wherever the model is written, and whether or not the run was resumed.
/// `base_model`: as config.json names it; only names of the Hub are told. Pure.
std::string model_card(const RunReport& run, const OutputReport& report,
                       const std::string& base_model);

}  // namespace shardweld::app

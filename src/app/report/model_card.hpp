// README.md of a written model: what the Hub shows of it, and where it came from.
#pragma once

#include <string>
#include <vector>

#include "report.hpp"
#include "summary.hpp"

namespace shardweld::app {

/// What the reports do not say of a model that is written.
struct Described {
    std::string format;       ///< "safetensors", "gguf", "hdf5"
    std::string model_class;  ///< as config.json names it; "" if unknown
    std::string base_model;   ///< as config.json names it; only names of the Hub are told
    ModelSize size;
    std::vector<std::string> options = {};  ///< that decide what is written
};

/// The card's file name.
inline constexpr const char* kModelCard = "README.md";

/// Markdown behind a head of YAML, as the Hub reads it (huggingface.co/docs/hub/model-cards). It
/// tells only what decides the model's bytes and what was found about them: it is the same at any
/// number of ranks, wherever the model is written, and whether or not the run was resumed. Pure.
std::string model_card(const RunReport& run, const OutputReport& report, const Described& model);

}  // namespace shardweld::app

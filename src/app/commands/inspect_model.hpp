// What a merge would make of a checkpoint, or why it would not: for people who look at one.
// Knows the way from a catalogue to targets; plans nothing.
#pragma once

#include <string>

#include "app/family/model.hpp"
#include "app/report/model_parts.hpp"
#include "app/survey/survey.hpp"

namespace shardweld::app {

struct ModelSummary {
    std::string name;      ///< "LlamaForCausalLM (llama)"; "" without a config
    std::string recipe;    ///< "" if none was chosen
    ModelParts parts;      ///< of the tensors that would be written
    std::string obstacle;  ///< why there would be none; "" otherwise
};

/// Collective, the same on the first rank only: elsewhere it stays empty. Takes the catalogue.
/// Whatever stands in the way of a merge is its obstacle, never an Error.
ModelSummary summarise_model(mpi::Comm& comm, const Options& options, Survey& survey);

}  // namespace shardweld::app

// Checkpoints of PEFT models bound: the base as any other model, the adapter beside it or folded
// into it, as --lora says. Knows options and the order of the steps; names and formulas are the
// adapters module's.
#pragma once

#include "shardweld/adapters/separate.hpp"

#include "model.hpp"

namespace shardweld::app {

/// The adapter's directory in a model's, and its files.
inline constexpr const char* kAdapterWeights = "lora_adapter/adapter_model.safetensors";
inline constexpr const char* kAdapterConfig = "lora_adapter/adapter_config.json";
/// Where factors lie while a model is folded, below the output's partial directory.
inline constexpr const char* kFactors = ".factors.safetensors";

/// What becomes of an adapter. A comparison has no place for one: it sees the base, unless it is
/// asked to fold.
Lora lora_for(Lora asked, Destination sink);

/// Whether the run is about an adapter and nothing else: no model is written and no config needed.
/// A framework's own forms cannot be read without one.
bool is_adapter_alone(Lora lora, const catalogue::Catalogue& catalogue);

/// bind_model for a catalogue that holds an adapter. Pure. Error(usage) where the options leave
/// nothing to write or no base to fold into; else as adapters::separate, settle and attach.
Bound bind_peft(const PreparedModel& prepared, const ModelFiles& files, const Options& options,
                catalogue::Catalogue catalogue);

}  // namespace shardweld::app

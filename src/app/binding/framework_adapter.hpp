// LoRA factors that a framework keeps beside its own weights, under its own names.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "app/family/model.hpp"

#include "factor_pairs.hpp"

namespace shardweld::app {

/// prepare_model for a catalogue that may hold a framework's adapter. Then `framework` of the
/// result knows the adapter's names, and the rest describes the base: that of the checkpoint, or
/// the one given with --base, whose tensors have the names of a module tree. Pure. Errors of
/// prepare_model; Error(unsupported) where the dialect does not say how adapters are kept.
HeldModel prepare_with_adapter(const ModelFiles& files, const JobModel& choice,
                               catalogue::Catalogue& catalogue);

/// Takes all that is the adapter's out of a catalogue; the base is left.
catalogue::Catalogue take_adapter(catalogue::Catalogue& catalogue, const models::LoraNames& names);

/// A framework's adapter under PEFT's names, without `base_model.model.` in front. Each factor is
/// in one of them at least.
struct FrameworkAdapter {
    plan::Binding factors;                  ///< "X.lora_A.weight"
    plan::Binding trained;                  ///< "X.weight" of modules that were trained as a whole
    std::map<std::string, FactorUse> uses;  ///< by X of "X.lora_A.weight": what it is added to
    Bytes repeated = 0;  ///< of factors that several targets are made of, beyond the first
};

/// The module tree that transformers has of the model that a framework's factors are of. nullopt
/// where it has none: the model's own code has the hub's names.
std::optional<HeldModel> module_tree_of(const HeldModel& framework, catalogue::Catalogue factors);

/// Binds what take_adapter took. `is_beside`: it is written beside the base, where no tensor keeps
/// its dtype, under the names of `tree`; null: there is none. Pure. Error(unsupported) for adapters
/// that are no plain LoRA of matrices; else as plan::bind.
FrameworkAdapter bind_framework_adapter(catalogue::Catalogue stored, const HeldModel& framework,
                                        const plan::BindOptions& factors,
                                        const plan::BindOptions& trained, bool is_beside,
                                        const HeldModel* tree);

}  // namespace shardweld::app

// A framework's factors, cut for the model's tensors. The product of a pair is a matrix beside the
// weight that it is added to, and stands in the model where that weight stands: rows of B go where
// its rows go, columns of A where its columns go.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/parameters.hpp"
#include "app/family/model.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// What is added to a tensor of the model: its B and A, as resolve_parameters has them.
struct FactorUse {
    adapters::LoraParameter parameter;  ///< one part, the tensor
    Index n_pairs = 1;                  ///< of factors, one behind the other along the rank
    bool is_module = false;             ///< a weight of rows and columns that a PEFT module holds
    bool is_embedding = false;          ///< one whose rows are looked up
    bool is_prediction = false;         ///< of a layer that predicts further tokens
    Index rank = 0;                     ///< of one pair
    Index n_rows = 0;
    Index n_cols = 0;
};

/// A framework's factors cut into pairs, one for each of the model's tensors.
struct CutFactors {
    plan::Targets targets;  ///< "X.lora_A.weight", in natural order
    std::vector<plan::SamePair> same;
    std::map<std::string, FactorUse> uses;  ///< by X
};

/// Cuts factors that were bound whole, under the framework's names. Every factor is of a pair, and
/// every element of every product is added to an element of the model that is named. Error
/// otherwise: mismatch for a factor without its other half, or of a weight that the family does not
/// have; unsupported where the written model cannot hold the sum.
CutFactors cut_factors(const plan::Binding& whole, const HeldModel& framework);

/// Factors cut for the modules that PEFT finds, else as cut_factors does: those of the module tree
/// `tree` (--to dcp), where there is one, or those of single experts, which it joins itself.
/// Error(unsupported), too, for what PEFT has no names for.
CutFactors cut_for_modules(const plan::Binding& whole, const HeldModel& framework,
                           const HeldModel* tree);

}  // namespace shardweld::app

// What a training checkpoint says of its optimizer beside the states: parameter groups, step and
// scheduler, as each framework has them.
// Sources: megatron-core 0.16.1 and 0.19.2 megatron/core/optimizer/{__init__,optimizer}.py; torch
// 2.15 torch/optim/optimizer.py.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/parameter_group.hpp"
#include "outputs/training.hpp"

namespace shardweld::reshape {

using shardweld::ParameterGroup;
using shardweld::Settings;

struct OptimizerToWrite {
    std::string family;  ///< of the model: a recipe's name
    double step = 0;
    Index iteration = 0;
    /// Without names, its parameters are those that the framework's own rule puts there.
    std::vector<ParameterGroup> groups = {};
    Settings scheduler = {};
};

/// A parameter with states: its name where it is written, and how many dims it has.
struct Parameter {
    std::string name;
    std::size_t n_dims = 0;
};

/// The value that a JSON text stands for.
outputs::PlainValue plain_value(const std::string& json);
outputs::PlainValue plain_dictionary(const Settings& settings);

/// Megatron's `optimizer`: groups as they were read from a Megatron checkpoint, else a group that
/// decays and one that does not, and for experts an optimizer of their own.
outputs::PlainValue megatron_optimizer(const OptimizerToWrite& optimizer, bool has_experts);

/// Megatron's `opt_param_scheduler`, without which Megatron-LM loads no optimizer: as it was read
/// from a Megatron checkpoint, else rate and decay as they are now, at its first sample.
outputs::PlainValue megatron_scheduler(const OptimizerToWrite& optimizer);

/// Groups of torch's own Adam over these parameters, each with its members' names. Those that name
/// their members keep them; Megatron's do not decay vectors and biases; a single group has all.
std::vector<ParameterGroup> torch_groups(const OptimizerToWrite& optimizer,
                                         const std::vector<Parameter>& parameters);

/// Groups where numbers stand for parameters, in the order in which the model registers them:
/// groups that name their members, as they do, or one group of all with the settings of the first.
/// Error(unsupported) where that order is not known.
std::vector<ParameterGroup> numbered_groups(const OptimizerToWrite& optimizer,
                                            std::vector<Parameter> parameters);

/// torch's `param_groups`, whose members are numbers that run over all groups.
outputs::PlainValue numbered_list(const std::vector<ParameterGroup>& groups);

/// The state of torch's own scheduler; none where another framework's was read.
outputs::PlainValue torch_scheduler(const OptimizerToWrite& optimizer);

}  // namespace shardweld::reshape

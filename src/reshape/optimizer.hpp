// What a training checkpoint says of its optimizer beside the states: parameter groups, step and
// scheduler, as each framework has them.
// Sources: megatron-core 0.16.1 and 0.19.2 megatron/core/optimizer/{__init__,optimizer}.py; torch
// 2.15 torch/optim/optimizer.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/parameter_group.hpp"
#include "outputs/training.hpp"

namespace shardweld::reshape {

using shardweld::ParameterGroup;
using shardweld::Settings;

/// A parameter with states: its name, and how many dims it has.
struct Parameter {
    std::string name;
    std::size_t n_dims = 0;
    std::string source = {};  ///< its name in the save that was read; "": not told
};

/// The optimizer of a training checkpoint that is written.
struct OptimizerToWrite {
    std::string family;  ///< of the model: a recipe's name
    double step = 0;
    Index iteration = 0;
    /// Megatron's have no names: its rule says which parameters they are of.
    std::vector<ParameterGroup> groups = {};
    Settings scheduler = {};
    std::vector<Parameter> parameters = {};  ///< under their names in the save that was read
};

/// The value that a JSON text stands for.
outputs::PlainValue plain_value(const std::string& json);
outputs::PlainValue plain_dictionary(const Settings& settings);

/// The table that all forms are written of: the groups of the save that was read, with their own
/// settings, and each of these parameters in one, under the name that is written. By names, by
/// Megatron's rule, or by what parameters of its kind have; nullopt, with the reason in `why`,
/// where that tells several groups that are not the same. Groups of none of them are left out.
std::optional<std::vector<ParameterGroup>> groups_with(const OptimizerToWrite& optimizer,
                                                       const std::vector<Parameter>& parameters,
                                                       std::string& why);

/// Megatron's `optimizer`: groups as they were read from a Megatron checkpoint, else a group that
/// decays and one that does not, and for experts an optimizer of their own. Error(unsupported)
/// where parameters of one such group have several settings.
outputs::PlainValue megatron_optimizer(const OptimizerToWrite& optimizer, bool has_experts);

/// Megatron's `opt_param_scheduler`, without which Megatron-LM loads no optimizer: as it was read
/// from a Megatron checkpoint, else rate and decay as they are now, at its first sample.
outputs::PlainValue megatron_scheduler(const OptimizerToWrite& optimizer);

/// What Megatron's groups, as megatron_optimizer makes them, cannot say of the settings; "": they
/// say all.
std::string lost_in_megatron(const OptimizerToWrite& optimizer);

/// Groups of torch's own Adam over these parameters, each with its members' names.
/// Error(unsupported) where groups_with does not tell them.
std::vector<ParameterGroup> torch_groups(const OptimizerToWrite& optimizer,
                                         const std::vector<Parameter>& parameters);

/// Groups where numbers stand for parameters, in the order in which the model registers them:
/// groups that name their members, as they do; else one group of all, with the settings that most
/// matrices have. Error(unsupported) where that order is not known.
std::vector<ParameterGroup> numbered_groups(const OptimizerToWrite& optimizer,
                                            std::vector<Parameter> parameters);

/// What a single group cannot say; "": it says all, or there are several.
std::string lost_in_one_group(const OptimizerToWrite& optimizer,
                              const std::vector<Parameter>& parameters);

/// torch's `param_groups`, whose members are numbers that run over all groups.
outputs::PlainValue numbered_list(const std::vector<ParameterGroup>& groups);

/// The state of torch's own scheduler; none where another framework's was read.
outputs::PlainValue torch_scheduler(const OptimizerToWrite& optimizer);

}  // namespace shardweld::reshape

// What an optimizer keeps of each parameter, and its settings. Read only where it is asked for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "core/parameter_group.hpp"

#include "tensor.hpp"

namespace shardweld::catalogue {

/// The states of Adam: fp32 copies of the weights, and the two moments. All have the weight's
/// shape.
inline constexpr std::string_view kMaster = "param";
inline constexpr std::string_view kMoment = "exp_avg";
inline constexpr std::string_view kSquaredMoment = "exp_avg_sq";

/// One state of all parameters that have it, under the names that the checkpoint has for the
/// parameters themselves: bound as the weights are.
struct State {
    std::string name;  ///< kMaster, kMoment or kSquaredMoment
    std::vector<Tensor> tensors;
    std::vector<Shard> shards;
    /// Facts that differ from Catalogue::facts for this state: a save may keep whole weights, and
    /// the state of each rank's part of them.
    std::map<std::string, Index> facts = {};
};

using shardweld::ParameterGroup;
using shardweld::Settings;

/// The optimizer of a checkpoint: its states, parameter groups and steps.
struct Optimizer {
    std::string form = {};  ///< how the save keeps it, for people: "fully_reshardable"
    std::vector<State> states = {};
    std::vector<ParameterGroup> groups = {};
    std::optional<double> step = {};  ///< of all parameters; nullopt: not told
    Settings scheduler = {};          ///< of the learning rate, as the framework names its fields
    /// Whether the save does not name what a state belongs to: the order of parameters does.
    bool is_ordered = false;
    /// What is known to go wrong where masters do not round to their weights; "": nothing.
    std::string doubt = {};

    [[nodiscard]] bool is_empty() const { return states.empty(); }
};

}  // namespace shardweld::catalogue

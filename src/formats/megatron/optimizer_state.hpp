// The optimizer's states in Megatron's distributed checkpoints, by the keys that name a parameter.
// Sources: megatron-core 0.12.2, 0.16.1 and 0.19.2
// megatron/core/optimizer/{distrib_optimizer,optimizer}.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "catalogue/catalogue.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/format.hpp"
#include "formats/shared/scalar_value.hpp"

namespace shardweld::formats::megatron {

/// A key of training state, taken apart.
struct StateKey {
    std::string_view state;      ///< catalogue::kMaster, kMoment or kSquaredMoment
    std::string_view parameter;  ///< the model's key
};

/// "optimizer.state.exp_avg.decoder.final_layernorm.weight", with "chained_0." in front where there
/// are several optimizers; nullopt for other keys. Error(unsupported) for a state that Adam has
/// not.
std::optional<StateKey> state_key(std::string_view key);

/// Puts a tensor among those of its state, unless `taken` says that it is not asked for; whether it
/// is.
bool take_state(const StateKey& key, catalogue::Tensor tensor, TakenState taken,
                catalogue::Optimizer& out);

/// Adds what the common state says: groups, step, scheduler, and the form of the states.
/// Error(unsupported) where groups are at several steps.
void add_optimizer(const PickleValue& root, const ScalarReader& scalars, catalogue::Optimizer& out);

/// States of megatron-core before 0.14, which are flattened ranges of the ranks' parts of a tensor:
/// gives them the shape of the parameter (Format::carve). Error(unsupported) where they do not fit
/// it.
void unflatten(catalogue::Catalogue& catalogue);

}  // namespace shardweld::formats::megatron

// The optimizer's states in Megatron's distributed checkpoints, by the keys that name a parameter.
// Sources: megatron-core 0.12.2, 0.16.1 and 0.19.2
// megatron/core/optimizer/{distrib_optimizer,optimizer}.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/format.hpp"
#include "formats/shared/scalar_value.hpp"

namespace shardweld::formats::megatron {

/// A key of training state, taken apart.
struct StateKey {
    std::string_view state;      ///< as known_state has it
    std::string_view parameter;  ///< the model's key, or that of the bucket without the state
};

/// "optimizer.state.exp_avg.decoder.final_layernorm.weight", with "chained_0." in front where there
/// are several optimizers, and keys of buckets (bucket_space.hpp); nullopt for keys that are none
/// of the optimizer's. Where moments are asked for, Error(unsupported) for a state that Adam has
/// not, and for other forms; masters are taken from beside any others, as Muon's are.
std::optional<StateKey> state_key(std::string_view key, TakenState taken);

/// Which of Adam's states Megatron calls `name`; `key` says where, for messages. For others
/// Error(unsupported) where moments are asked for, else "".
std::string_view known_state(std::string_view name, std::string_view key, TakenState taken);

/// Error(unsupported) where `value`, which is no tensor, stands in the place of the state `name`
/// of `owner`, and that is asked for.
void require_no_state(std::string_view name, const PickleValue& value, TakenState taken,
                      const std::string& owner);

/// Error(unsupported) for an object in the place of a tensor, by its key, likewise.
void require_no_state(std::string_view key, TakenState taken);

/// The state called `name`, a new one if there is none; null where `taken` says that it is not
/// asked for.
State* state_taken(std::string_view name, TakenState taken, Optimizer& out);

/// Puts a tensor among those of its state, unless `taken` says that it is not asked for; whether it
/// is.
bool take_state(const StateKey& key, Tensor tensor, TakenState taken, Optimizer& out);

/// Adds what the common state says: groups, step, scheduler, and the form of the states. Error as
/// by StepClaims.
void add_optimizer(const PickleValue& root, const ScalarReader& scalars, Optimizer& out);

/// Gives states the names and shapes of their parameters (Format::split_flat_states): buckets, and
/// flattened ranges of the ranks' parts of a tensor, as megatron-core before 0.14 saves them. Error
/// as by carve_buckets, Error(unsupported) where a range does not fit its parameter.
void split_flat_states(Catalogue& catalogue);

}  // namespace shardweld::formats::megatron

// The states of Adam among those that optimizers keep, by the names that torch's optimizers give
// them.
#pragma once

#include <string>
#include <string_view>

#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/format.hpp"

namespace shardweld::formats {

/// Whether `name` is kMoment or kSquaredMoment.
bool is_moment(std::string_view name);

/// Whether a state of this name is asked for.
bool is_taken(std::string_view state, TakenState taken);

/// kMoment or kSquaredMoment. Error(unsupported) for any other name, quoting `key`, with
/// which the save has it.
std::string_view adam_state(std::string_view name, std::string_view key);

/// Error(unsupported) for what stands where a tensor of states belongs, and is none: a state that
/// is there is not missing, though it cannot be read. `what` names it.
[[noreturn]] void refuse_state(const std::string& what, const PickleValue& value);

/// The state of that name, which is made where there is none.
State& state_called(std::string_view name, Optimizer& optimizer);

/// Error(unsupported) where there is one moment without the other, as Lion keeps them.
void require_both_moments(const Optimizer& optimizer);

}  // namespace shardweld::formats

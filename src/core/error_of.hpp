// What a piece of work throws, as a value.
#pragma once

#include <functional>
#include <optional>

#include "shardweld/error.hpp"

namespace shardweld {

/// What `work` threw, as an Error; nullopt: nothing. Exceptions that are none become
/// Error(internal), std::bad_alloc Error(memory), those of std::filesystem what their errno says.
std::optional<Error> error_of(const std::function<void()>& work);

}  // namespace shardweld

// How an error is shown: what, where, and what to do about it, a line each.
// The one place that lays errors out; knows nothing of streams.
#pragma once

#include <string>

#include "shardweld/core/error.hpp"

namespace shardweld::app {

/// The error's own hint, else what is usual with its code; may be "".
std::string hint_of(const Error& error);

/// The lines below "WHAT", indented by two: "where:", "hint:", and "detail:" if asked for, as far
/// as there is something to say. Each begins with a line end.
std::string below(const Error& error, bool has_detail);

/// WHAT and the lines below it.
std::string text_of(const Error& error, bool has_detail = false);

}  // namespace shardweld::app

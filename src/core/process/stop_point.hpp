// Where long loops over what an input holds find out that the process was asked to end.
#pragma once

#include <string>

namespace shardweld {

/// Why to stop, "" while there is no reason. Of any thread.
using WhyStopped = std::string (*)();

/// What stop_point asks from now on; null: nothing.
void set_why_stopped(WhyStopped why);

/// Error(stopped) with the reason where there is one. Some nanoseconds: loops call it for each
/// thousandth entry or so.
void stop_point();

}  // namespace shardweld

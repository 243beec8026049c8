// Environment variables, for programs that listen to them. The library listens to none unless
// its program does.
#pragma once

#include <optional>
#include <string>

namespace shardweld {

/// From now on `variable` tells what this process's environment says. Called by programs at their
/// start, before there are threads.
void heed_environment();

/// The variable's value; nullopt where it is not set, and before heed_environment().
std::optional<std::string> variable(const std::string& name);

}  // namespace shardweld

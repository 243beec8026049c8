// Names in a message: the first few of many.
#pragma once

#include <string>
#include <vector>

namespace shardweld::app {

/// "a, b, c", of more than eight the first eight and ", ...".
std::string listed(const std::vector<std::string>& texts);

}  // namespace shardweld::app

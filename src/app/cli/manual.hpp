// Manual pages in roff, made from the option table so that they cannot go stale.
#pragma once

#include <string>

#include "app/settings/option_table.hpp"

namespace shardweld::app {

/// shardweld(1): the commands and the exit codes.
std::string manual_page();

/// shardweld-COMMAND(1).
std::string manual_page(const CommandRow& command);

}  // namespace shardweld::app

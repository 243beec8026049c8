// Splits a command line into options and other arguments.
// Knows spellings (dashes, '=', short forms); knows no option's meaning.
#pragma once

#include <string>
#include <vector>

#include "app/settings/option_table.hpp"
#include "app/settings/settle.hpp"

namespace shardweld::app {

/// The arguments behind the command's name. Error(usage), Error(unsupported) as parse_options.
Arguments split_arguments(const CommandRow& command, const std::vector<std::string>& arguments);

}  // namespace shardweld::app

// Splits a command line into options and other arguments.
// Knows spellings (dashes, '=', short forms); knows no option's meaning.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "option_table.hpp"

namespace shardweld::app {

struct Arguments {
    std::map<std::string, std::string> values;  ///< by canonical name; "" for flags
    std::vector<std::string> others;

    [[nodiscard]] bool has(const std::string& name) const { return values.contains(name); }
};

/// The arguments behind the command's name. Error(usage), Error(unsupported) as parse_options.
Arguments split_arguments(const CommandLine& command, const std::vector<std::string>& arguments);

}  // namespace shardweld::app

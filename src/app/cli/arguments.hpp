// Splits a command line into options and other arguments.
// Knows spellings (dashes, '=', short forms); knows no option's meaning.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "option_table.hpp"

namespace shardweld::app {

struct Arguments {
    /// By the names of rows; "true" for flags.
    std::map<std::string, std::string, std::less<>> values;
    std::vector<std::string> others;
    std::vector<std::string> checkpoints;  ///< of several, those behind the first

    [[nodiscard]] bool has(std::string_view name) const { return values.contains(name); }
};

/// The arguments behind the command's name. Error(usage), Error(unsupported) as parse_options.
Arguments split_arguments(const CommandRow& command, const std::vector<std::string>& arguments);

}  // namespace shardweld::app

// Options that were given by name, on a command line or by a program, as values that fit together.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "command_table.hpp"

namespace shardweld::app {

/// Options and their texts, before anything is made of them.
struct Arguments {
    /// By the names of rows; "true" for flags.
    std::map<std::string, std::string, std::less<>> values;
    std::vector<std::string> others;
    std::vector<std::string> checkpoints;  ///< of several, those behind the first

    [[nodiscard]] bool has(std::string_view name) const { return values.contains(name); }
};

/// `options` with what is given to `command`, and what all ranks and a later run must be given
/// alike (Options::shared, output_options). Error(usage) where a text is no value of its option,
/// where options exclude or need one another, and where no directory is given.
Options settled(Options options, const CommandRow& command, const Arguments& given);

}  // namespace shardweld::app

// What manual pages say beside options: exit codes, variables, files, each with the commands that
// have to do with it. Knows texts only.
#pragma once

#include <string_view>
#include <vector>

#include "shardweld/core/error.hpp"

namespace shardweld::app {

struct ExitRow {
    ErrorCode code;
    std::string_view meaning;
    unsigned commands = 0;  ///< that end with it, see bit_of
};

/// All codes, in their order.
const std::vector<ExitRow>& exit_rows();

struct ManualRow {
    std::string_view term;
    std::string_view text;
    unsigned commands = 0;
};

/// Variables that the program reads or sets.
const std::vector<ManualRow>& environment_rows();
const std::vector<ManualRow>& file_rows();

}  // namespace shardweld::app

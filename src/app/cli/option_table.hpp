// All options: names, arguments, help, and the commands that take them.
// Knows texts only; values are checked where they are read.
#pragma once

#include <string_view>
#include <vector>

#include "options.hpp"

namespace shardweld::app {

/// Commands as bits.
inline constexpr unsigned kMerge = 1;
inline constexpr unsigned kPlan = 2;
inline constexpr unsigned kInspect = 4;
inline constexpr unsigned kRecipes = 8;
inline constexpr unsigned kTest = 16;
inline constexpr unsigned kDiff = 32;
inline constexpr unsigned kVerify = 64;
inline constexpr unsigned kUpload = 128;
inline constexpr unsigned kIobench = 256;
inline constexpr unsigned kEvery = 511;

struct OptionLine {
    std::string_view name;      ///< with '_'
    char letter = 0;            ///< short form, 0 if none
    std::string_view argument;  ///< "DIR"; "" for a flag; "[A|B]": one of these, A if not given
    unsigned commands = 0;
    std::string_view group;  ///< heading in the help; "" for options that are not listed
    std::string_view help;
};

const std::vector<OptionLine>& option_lines();

struct CommandLine {
    std::string_view name;
    Command command = Command::help;
    unsigned bit = 0;
    std::string_view usage;
    std::string_view summary;
    std::string_view about;  ///< paragraphs and examples below the options
};

const std::vector<CommandLine>& command_lines();

/// Options known from verl's mergers, or planned, that this version does not have.
bool is_later_option(std::string_view name);

}  // namespace shardweld::app

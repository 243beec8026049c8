// All commands: names, and what the help says of them.
#pragma once

#include <string_view>
#include <vector>

#include "job.hpp"

namespace shardweld::app {

/// Sets of commands, as bits.
constexpr unsigned bit_of(Command command) {
    return 1U << static_cast<unsigned>(command);
}
inline constexpr unsigned kMerge = bit_of(Command::merge);
inline constexpr unsigned kPlan = bit_of(Command::plan);
inline constexpr unsigned kInspect = bit_of(Command::inspect);
inline constexpr unsigned kRecipes = bit_of(Command::recipes);
inline constexpr unsigned kTest = bit_of(Command::test);
inline constexpr unsigned kDiff = bit_of(Command::diff);
inline constexpr unsigned kVerify = bit_of(Command::verify);
inline constexpr unsigned kClean = bit_of(Command::clean);
inline constexpr unsigned kMount = bit_of(Command::mount);
inline constexpr unsigned kUnmount = bit_of(Command::unmount);
inline constexpr unsigned kEvery = bit_of(Command::help) - 1;

struct CommandRow {
    std::string_view name;
    Command command = Command::help;
    std::vector<std::string_view> others;  ///< options that plain arguments stand for, in order
    std::string_view usage;
    std::string_view summary;
    std::string_view about;                    ///< paragraphs and examples below the options
    std::vector<std::string_view> usual = {};  ///< options of the short help; none: all of them
    bool needs_form = false;                   ///< --to must be given
};

const std::vector<CommandRow>& command_rows();
/// The first that does it; requires one.
const CommandRow& row_for(Command command);

/// The commands that are named, as bits: "merge plan", "every -clean" (all but one). Those of
/// programs of their own are none here.
unsigned commands_in(std::string_view names);

/// commands.txt, of which the rows are made. The build makes it.
std::string_view commands_page();

}  // namespace shardweld::app

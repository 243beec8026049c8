// All commands: names, and what the help says of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

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

struct OptionRow;

struct CommandRow {
    std::string_view name;
    Command command = Command::help;
    std::vector<std::string_view> others;  ///< options that plain arguments stand for, in order
    std::string_view usage;
    std::string_view summary;
    std::string_view about;                    ///< paragraphs and examples below the options
    std::vector<std::string_view> usual = {};  ///< options of the short help; none: all of them
    bool needs_form = false;                   ///< --to must be given
    std::string_view passes_on = {};  ///< the command whose options it takes, too; "": none

    std::vector<std::string_view> needed = {};  ///< options without which it says so at once

    // Of an installed command (runtime/external.hpp); built-in ones have none of them.
    std::shared_ptr<const nlohmann::ordered_json> told = {};          ///< how it is described
    std::shared_ptr<const std::vector<OptionRow>> options_told = {};  ///< in option_rows()' place
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

// The command line read, and what the help says of it.
#pragma once

#include <string>
#include <vector>

#include "app/settings/command_table.hpp"
#include "app/settings/job.hpp"

namespace shardweld::app {

/// Parses the command line (argv[0] is skipped). Option names may be written with '-' or '_'.
/// Error(usage) says what is wrong with which option; Error(unsupported) for options and commands
/// of verl's mergers that this version does not have.
Job parse_options(const std::vector<std::string>& arguments);

/// The text of `shardweld help [TOPIC]`; brief: of `shardweld TOPIC -h`; json: of `shardweld help
/// [TOPIC] --json`. Error(usage) for an unknown topic.
std::string help_text(const std::string& topic, HelpForm form = HelpForm::whole);

/// A line for each command, as the help lists them.
std::string commands_text();

/// What `shardweld help --json` prints: commands, options, exit codes, variables of the environment
/// and files, for programs that make manual pages, completions and documents of it.
/// Those that are programs of their own are asked for theirs.
std::string help_json();

/// The options of one command, as help_json has them.
std::string help_json_of(const CommandRow& command);

}  // namespace shardweld::app

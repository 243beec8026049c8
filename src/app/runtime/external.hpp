// Commands that are programs of their own, as git and cargo have them: shardweld-NAME.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/settings/command_table.hpp"
#include "core/path.hpp"
#include "process/process.hpp"

namespace shardweld::app {

/// What to do where a command and the program do not fit.
inline constexpr const char* kOtherVersion =
    "take the program with the libexec directory that it was installed with";

/// The names of the commands that are installed with this program (../libexec/shardweld): written
/// in Python, and part of its help.
std::vector<std::string> installed_commands();

/// The file of the installed command of that name; nullopt: there is none.
std::optional<fs::path> find_installed_command(const std::string& name);

/// An installed command as its description has it, beside it in shardweld_commands/descriptions.
/// Its options are its own and those of the command that it passes others on to, whose rows are not
/// taken where it refuses them. Error(unsupported) where there is no such description.
CommandRow installed_row(const std::string& name);

/// The command line with an installed command's name in place of what stands for it: `recipes
/// suggest` is recipes-suggest where that is installed, and `plan --sbatch` is sbatch.
std::vector<std::string> with_command_name(std::vector<std::string> arguments);

/// What starts the first shardweld-NAME on PATH where neither a command nor a file has its name;
/// `help NAME` is NAME --help. nullopt for everything else.
std::optional<std::vector<std::string>> words_on_path(const std::vector<std::string>& arguments);

/// Replaces this process by the program that the first word is; what it is told of this one is in
/// SHARDWELD_PROGRAM. Error(launch) where it cannot be started.
[[noreturn]] void become(const std::vector<std::string>& line);

/// The same for an installed command, whose name is the first word; the others are Job::installed.
/// Error(not_found) where there is no Python.
[[noreturn]] void become_installed(const std::vector<std::string>& words);

/// Replaces this process by the program of a built-in command that is linked with more than this
/// one: libexec/shardweld/shardweld-NAME. Error(unsupported) where it is not installed, with
/// `hint`.
[[noreturn]] void become_own(const std::string& name, const std::vector<std::string>& arguments,
                             const std::string& hint);

/// A process that runs an installed command with these words, as Job::installed has them.
/// Error(not_found) where it is not installed, or there is no Python.
process::Process installed_command(const std::string& name, const std::vector<std::string>& words);

}  // namespace shardweld::app

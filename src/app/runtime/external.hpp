// Commands that are programs of their own, as git and cargo have them: shardweld-NAME.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/path.hpp"
#include "process/process.hpp"

namespace shardweld::app {

/// What to do where a command and the program do not fit.
inline constexpr const char* kOtherVersion =
    "take the program with the libexec directory that it was installed with";

/// The words that start an external command; how it is described is its own (`--describe`).
struct External {
    std::string name;
    fs::path file;
    bool is_installed = false;  ///< with this program: written in Python, and part of its help
};

/// What is installed with this program (../libexec/shardweld), by name.
std::vector<External> installed_externals();

/// What this command line starts where no built-in command has its first word: the installed
/// command of that name, else the first shardweld-NAME on PATH. `recipes suggest` is
/// recipes-suggest where that is installed, `plan --sbatch` is sbatch, and `help NAME` is NAME
/// --help. nullopt for everything else.
std::optional<std::vector<std::string>> external_words(const std::vector<std::string>& arguments);

/// Replaces this process by that command; what it is told of this program is in SHARDWELD_PROGRAM.
/// Error(not_found) where it is written in Python and there is none, Error(launch) where it cannot
/// be started.
[[noreturn]] void become_external(const std::vector<std::string>& words);

/// Replaces this process by the program of a built-in command that is linked with more than this
/// one: libexec/shardweld/shardweld-NAME. Error(unsupported) where it is not installed, with
/// `hint`.
[[noreturn]] void become_own(const std::string& name, const std::vector<std::string>& arguments,
                             const std::string& hint);

/// A process that runs an installed command with these words. Error(not_found) where it is not
/// installed, or there is no Python.
process::Process installed_command(const std::string& name, const std::vector<std::string>& words);

/// What an installed command prints with `--describe`, one JSON object. Error(internal) where it
/// fails; errors of become_external.
std::string description_of(const External& external);

/// Its summary there, for lists of commands; why there is none where that cannot be had.
std::string summary_of(const External& external);

}  // namespace shardweld::app

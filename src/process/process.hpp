// Runs another program and reads what it says; command lines as text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/path.hpp"

namespace shardweld::process {

/// A program to run, and how.
struct Process {
    fs::path program;
    std::vector<std::string> arguments;    ///< without the program itself; no shell sees them
    std::vector<std::string> environment;  ///< "NAME=value", set unless this process has NAME
    std::optional<double> limit_s;         ///< ended when it takes longer
    /// Every line of standard output and error, without its end, as it comes; a line's first
    /// 64 KiB.
    std::function<void(std::string_view)> on_line;
    /// Beginnings of names: variables of this process that the program is not given.
    std::vector<std::string> withheld = {};
};

/// How a process ended.
struct Ending {
    std::optional<int> code;    ///< of its exit
    std::optional<int> signal;  ///< that ended it
    bool was_stopped = false;   ///< this process was told to stop (SIGINT, SIGTERM, SIGHUP)
    bool took_too_long = false;

    [[nodiscard]] bool is_success() const { return code == 0; }
};

/// Runs a program to its end, with an empty standard input and none of this process's other files.
/// What asks this process to stop is passed on as SIGTERM, after five seconds as SIGKILL.
/// nullopt when it cannot be started (errno says why).
std::optional<Ending> run(const Process& process);

/// Whether a path names a file that this user may run.
bool is_program(const fs::path& path);

/// The first program of this name in a list of directories such as PATH's, absolute.
std::optional<fs::path> find_program(const std::string& name, const std::string& path);
/// The first one on PATH.
std::optional<fs::path> find_program(const std::string& name);

/// A command line as exec takes it, which ends in a null pointer. The words must outlive it.
std::vector<char*> exec_words(const std::vector<std::string>& words);

/// `text` as one word of a POSIX shell's command line, whatever bytes it has.
std::string shell_word(const std::string& text);

/// Words as a command line, or a part of one.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace shardweld::process

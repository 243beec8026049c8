// The program: command line in, exit code out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/messages/log.hpp"
#include "app/settings/job.hpp"

namespace shardweld::app {

/// Runs `command`; an exception becomes one message and its exit code.
int exit_code_of(Log& log, const std::function<int()>& command);

/// The log as its reader likes it: in colours on a terminal, as JSON for programs. Messages of one
/// that is no speaker go to others.
Log log_for(const Job& job, bool is_speaker);

/// Runs one command line (arguments[0] is the program's name). Results go to stdout, messages to
/// stderr; never throws; returns the exit code. MPI is initialised by merge only, after parsing.
int run_program(const std::vector<std::string>& arguments);

}  // namespace shardweld::app

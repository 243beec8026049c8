// The program: command line in, exit code out.
#pragma once

#include <string>
#include <vector>

namespace shardweld::app {

/// Runs one command line (arguments[0] is the program's name). Results go to stdout, messages to
/// stderr; never throws; returns the exit code. MPI is initialised by merge only, after parsing.
int run_program(const std::vector<std::string>& arguments);

}  // namespace shardweld::app

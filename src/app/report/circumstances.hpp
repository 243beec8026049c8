// How a run was started, so that it can be started again: the command line, the launcher's, the
// directory and the variables that matter. Knows this process; nothing of what runs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace shardweld::app {

struct Circumstances {
    std::string command;    ///< as it can be typed in a shell
    std::string launcher;   ///< mpirun's own command line; "" where none is seen
    std::string directory;  ///< the working directory
    std::map<std::string, std::string> variables;
};

/// Of this process. `arguments`: the whole command line; none: a program of its own called the
/// library, and nothing is looked at.
Circumstances circumstances_of(const std::vector<std::string>& arguments);

/// Whether a variable may change a run, and holds no secret: Slurm's, MPI's, OpenMP's and the
/// program's own, without addresses of the launcher's daemons.
bool is_telling(const std::string& variable);

}  // namespace shardweld::app

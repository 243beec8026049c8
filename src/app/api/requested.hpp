// Requests of a program as the options that the commands take.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "app/settings/options.hpp"
#include "mpi/comm.hpp"
#include "shardweld/merge.hpp"

namespace shardweld::app {

/// Options by their names, and what each is given.
using OptionTexts = std::map<std::string, std::string>;

/// The options of `command` (merge, plan, test). `own`: what the request has members for.
/// Error(usage) for what is missing, what is no value of an option, and options that a request does
/// not take.
Options options_of(const MergeRequest& request, Command command = Command::merge,
                   OptionTexts own = {});

/// As above, of a command that looks at something. `own` has what the request's members say.
Options options_of(Command command, const OptionTexts& own, const OptionTexts& others);

/// Collective. The options that `read` makes of a request. Error(usage) on all ranks where one has
/// none, or other ones than the first.
Options agreed_options(mpi::Comm& ranks, const std::function<Options()>& read);

/// Collective. Runs `run`. Failures of one rank alone are not known to the others, which wait for
/// it: where there are several, all end.
void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run);

}  // namespace shardweld::app

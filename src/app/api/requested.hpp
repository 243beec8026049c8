// Requests of a program as the options that the commands take.
#pragma once

#include <functional>
#include <string>

#include "app/settings/options.hpp"
#include "mpi/comm.hpp"
#include "shardweld/examine.hpp"
#include "shardweld/merge.hpp"

namespace shardweld::app {

/// The options of `command` (merge, plan, test), which takes the values that `set` gives it beside
/// the request's. Error(usage) for what is missing, what is no value of an option, and options that
/// a request does not take.
Options options_of(const MergeRequest& request, Command command,
                   const std::function<void(Options&)>& set = {});

/// As above, of a command that looks at something.
Options options_of(const ExamineRequest& request, Command command,
                   const std::function<void(Options&)>& set = {});

/// Gives an option the text or path that a request has a member for; none where it is empty.
/// Error(usage) for one with a zero byte, which ends a text for the system: it would take another
/// path than the one that was named.
void put_value(Options& options, const char* option, const std::string& text);

/// Collective. The options that `read` makes of a request. Error(usage) on all ranks where one has
/// none, or other ones than the first.
Options agreed_options(mpi::Comm& ranks, const std::function<Options()>& read);

/// Collective. Runs `run`. Failures of one rank alone are not known to the others, which wait for
/// it: where there are several, all end.
void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run);

}  // namespace shardweld::app

// Requests of a program as the options that the commands take.
#pragma once

#include <map>
#include <string>

#include "app/settings/options.hpp"
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
Options options_of(Command command, OptionTexts own, const OptionTexts& others);

}  // namespace shardweld::app

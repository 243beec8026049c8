// What is to go wrong, where and how often: parsed from SHARDWELD_FAULTS.
// Knows sites; carries nothing out.
//
//   SHARDWELD_FAULTS = FAULT[;FAULT...], FAULT = key=value[,key=value...]
//     call=open|read|...|any  side=input|output|report|any  phase=survey|...|any  path=TEXT (in it)
//     rank=N|any  nth=N (1)  times=N (1; 0: from the n-th on)
//     do=error:NUMBER|short|slow:MILLISECONDS|signal:NUMBER|scribble|grow|shorten|replace|vanish|link|script
//     script: the shell text SHARDWELD_FAULT_SCRIPT, which gets the path
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "site.hpp"

namespace shardweld::faults {

enum class Kind {
    error,
    shorter,
    slow,
    signal,
    scribble,
    grow,
    shorten,
    replace,
    vanish,
    link,
    script
};

struct Action {
    Kind kind = Kind::error;
    int number = 0;  ///< errno of `error`, microseconds of `slow`, of `signal` its number
};

struct Fault {
    std::optional<Call> call;
    std::optional<Side> side;
    std::optional<Phase> phase;
    std::optional<int> rank;
    std::string path;
    std::uint64_t nth = 1;
    std::uint64_t times = 1;
    Action action;
    std::atomic<std::uint64_t> n_seen = 0;

    /// Counts the call when it is of this fault's kind; whether it is to go wrong.
    bool strikes(const Site& site, int own_rank);
};

/// The faults of a text as above. Ends the process with a message when it is not one: a fault that
/// is not understood must not pass for one that did no harm.
std::deque<Fault> parse_faults(std::string_view text);

}  // namespace shardweld::faults

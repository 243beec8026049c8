// Decides at each call of the program under test whether something goes wrong, counts, and does
// what is more than a wrong answer: waiting, killing, changing the file.
// Knows faults and sites; the calls themselves are in calls.cpp.
#pragma once

#include <optional>

#include "fault.hpp"

namespace shardweld::faults {

/// What the caller has to answer.
struct Verdict {
    int error = 0;            ///< errno; 0: the call goes on
    bool is_shorter = false;  ///< half of the bytes only
};

/// Asks for a call on a path; waits, kills this process or changes the file where a fault says so.
/// Outside of the program under test, and for files of no interest, nothing goes wrong.

/// The same for a descriptor and for a path relative to a directory's descriptor.
Verdict judge(Call call, int fd);
Verdict judge(Call call, int directory, const char* path, int flags = 0);

/// Allocations have no path: they count in the phase that the files showed last.
Verdict judge_allocation();

}  // namespace shardweld::faults

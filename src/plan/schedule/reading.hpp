// How elements are read: which runs stand alone, which gaps are read over, and what that takes.
// The reader follows it, the traffic of a plan is counted by it.
#pragma once

#include "layout/copy.hpp"

namespace shardweld::plan {

/// Runs at least this long are read straight into place; shorter ones share a read.
inline constexpr Bytes kLongRun = Bytes{64} << 10U;
/// Two parts of a file are read together when no more than this lies between them.
inline constexpr Bytes kSmallGap = Bytes{32} << 10U;

/// What reading takes.
struct Reading {
    Index requests = 0;
    Bytes bytes = 0;   ///< gaps between short runs included
    Bytes copied = 0;  ///< of these out of windows, the elements of short runs
};

/// How a copy is carried out.
struct ReadingSteps {
    Bytes element_bytes = 1;
    Index round = 1;       ///< elements of the destination (and of others' copies) in one round
    Index n_rounds = 0;    ///< that meet the copy, at least; 0: as many as its size makes
    Bytes window = 1;      ///< the largest read of short runs
    bool is_sent = false;  ///< packed into a message instead of read into place
};

/// Reads of all elements of `copy` (normal form), round by round. The number of requests and the
/// gaps are those of a typical round times the number of rounds; the elements are exact.
Reading reading_of(const layout::Copy& copy, const ReadingSteps& steps);

}  // namespace shardweld::plan

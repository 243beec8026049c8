// Who holds a lock file, by its own words, and whether that run is known to be over.
// Knows hosts, processes and jobs; opens no lock.
#pragma once

#include <string>

#include "core/index.hpp"

namespace shardweld::publish {

struct Holder {
    std::string host;  ///< "" where nothing was written yet
    Index process = 0;
    std::string job;     ///< of the batch system, "" if none
    Index restarts = 0;  ///< how often the batch system had started that job again
    std::string boot;    ///< of the host's kernel, "" where it is not told
};

/// This process. `job` and `restarts` as the batch system tells them.
Holder this_process(std::string job, Index restarts);

/// "HOST PROCESS JOB RESTARTS BOOT" with "-" for what is not known.
std::string text_of(const Holder& holder);
/// Of such a text, whose last words may be missing. Pure.
Holder holder_from(const std::string& text);

/// "process 12 of job 34 on host node1", for messages.
std::string name_of(const Holder& holder);

/// Whether the holder's run is over for certain: its process on this host is gone, this host has
/// booted since, or it is an earlier start of the own job, which the batch system ended before it
/// started the job again (a node that was lost cannot give its lock back).
bool is_over(const Holder& holder, const Holder& own);

}  // namespace shardweld::publish

// What this process has used, as the system counts it.
#pragma once

#include "shardweld/core/index.hpp"

namespace shardweld {

/// Anonymous and shared memory now (RssAnon + RssShmem of /proc/self/status); 0 when the system
/// does not tell.
Bytes resident_bytes();
/// User and system time of the process in seconds.
double cpu_seconds();
/// The same of the calling thread.
double thread_cpu_seconds();
/// Monotonic time in seconds.
double wall_seconds();

}  // namespace shardweld

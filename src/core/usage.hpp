// What this process has used, as the system counts it.
#pragma once

#include "index.hpp"

namespace shardweld {

/// Anonymous and shared memory now (RssAnon + RssShmem of /proc/self/status); 0 when the system
/// does not tell.
Bytes resident_bytes();
/// The most there has been so far. The system's own mark (VmHWM) counts mapped file pages too, the
/// program's text: what is mapped now is taken off. Exact while the text grows little between two
/// calls, so it is called at the end of every phase; never less than an earlier answer.
Bytes peak_bytes();
/// Gives freed memory that the heap keeps back to the system.
void return_freed_memory();
/// User and system time of the process in seconds.
double cpu_seconds();
/// The same of the calling thread.
double thread_cpu_seconds();
/// Monotonic time in seconds.
double wall_seconds();

}  // namespace shardweld

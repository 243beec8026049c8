// This process and its machine: the host's name, environment variables, the system's error numbers
// as codes and texts, and what the process has used.
#pragma once

#include <optional>
#include <string>

#include "core/index.hpp"
#include "shardweld/error.hpp"

namespace shardweld {

/// From now on `variable` tells what this process's environment says. Called by programs at their
/// start, before there are threads.
void read_environment();

/// The variable's value; nullopt where it is not set, and before read_environment().
std::optional<std::string> variable(const std::string& name);

/// As gethostname(2) tells it; "unknown" where it does not.
std::string host_name();

/// What Linux calls this start of the machine: another machine of the same name, or the same one
/// started again, has another; "" where it is not told.
std::string boot_id();

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
/// User and system time of the calling thread in seconds.
double thread_cpu_seconds();
/// Monotonic time in seconds.
double wall_seconds();
/// The time of day: "2026-02-28T23:59:59Z".
std::string utc_now();

/// ENOSPC, EDQUOT, EFBIG -> space; ENOMEM -> memory; ENOENT, ENOTDIR -> not_found; others -> io.
ErrorCode code_of_errno(int error);

/// "REASON (errno N)"
std::string text_of_errno(int error);

}  // namespace shardweld

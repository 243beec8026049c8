// Ends a process whose MPI library hangs when it is finalised: everything is done by then.
// Knows an exit code and a time; nothing of what was done.
#pragma once

namespace shardweld::app {

/// Seen rarely with PMIx under Slurm. While it lives and once it has begun, the process ends after
/// `kExitLimit_s`, with its code. One at a time; not together with other users of alarm(2).
class ExitLimit {
  public:
    ExitLimit() = default;
    ~ExitLimit();
    ExitLimit(const ExitLimit&) = delete;
    ExitLimit& operator=(const ExitLimit&) = delete;
    ExitLimit(ExitLimit&&) = delete;
    ExitLimit& operator=(ExitLimit&&) = delete;

    /// All ranks have agreed on the end; output is flushed.
    void begin(int code);
};

inline constexpr unsigned kExitLimit_s = 20;

}  // namespace shardweld::app

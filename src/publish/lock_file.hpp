// A lock that ends with its process, and who holds it.
#pragma once

#include <optional>
#include <string>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::publish {

/// The process that holds a lock, as its file says.
struct Holder {
    std::string host;  ///< "" where nothing was written yet
    Index process = 0;
    std::string job;     ///< of the batch system, "" if none
    Index restarts = 0;  ///< how often the batch system had started that job again
    std::string boot;    ///< of the host's kernel, "" where it is not told
};

/// This process. `job` and `restarts` as the batch system tells them: the lock of an earlier start
/// of the job, whose node was lost, is nobody's.
Holder this_process(std::string job = {}, Index restarts = 0);

/// "HOST PROCESS JOB RESTARTS BOOT" with "-" for what is not known.
std::string text_of(const Holder& holder);
/// Reads such a text, whose last words may be missing. Pure.
Holder holder_from(const std::string& text);

/// "process 12 of job 34 on host node1", for messages.
std::string name_of(const Holder& holder);

/// Whether the holder's run is over for certain: its process on this host is gone, this host has
/// booted since, or it is an earlier start of the own job, which the batch system ended before it
/// started the job again (a node that was lost cannot give its lock back).
bool is_over(const Holder& holder, const Holder& own);

/// Error(locked) naming the holder when another run holds that lock; Error(io) when that cannot be
/// seen. Makes no file.
void require_free(const fs::path& path, const fs::path& target, const Holder& own);

/// Whom a lock file names; nullopt where there is no file, nobody where it cannot be read.
std::optional<Holder> holder_in(const fs::path& path);

/// A target's lock: a file beside it, or one in it for who may not write beside it and for mount
/// points, which have no place beside them. A run holds one of them and only then looks at the
/// other: of two runs at least one sees the other. Where the file system has no locks, the run that
/// made the file holds it until it is removed. A run that is over (is_over) holds nothing. Ended,
/// the file is removed and the lock given back.
class TargetLock {
  public:
    /// Error(locked) naming the holder when another run holds either; Error(target) when the file
    /// is another user's and cannot be removed; Error(io), also where neither can be made.
    TargetLock(const fs::path& target, const Holder& own);
    TargetLock(TargetLock&& other) noexcept;
    TargetLock(const TargetLock&) = delete;
    TargetLock& operator=(const TargetLock&) = delete;
    TargetLock& operator=(TargetLock&&) = delete;
    ~TargetLock() { release(); }

    /// Whether this has it: it was neither moved from nor given back.
    [[nodiscard]] bool is_held() const { return fd_ >= 0; }
    [[nodiscard]] bool is_inside() const { return is_inside_; }
    /// The descriptor of the file, which is this user's.
    [[nodiscard]] int fd() const { return fd_; }
    void release() noexcept;

  private:
    fs::path path_;
    bool is_inside_ = false;
    int fd_ = -1;
};

}  // namespace shardweld::publish

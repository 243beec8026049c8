// A mutex for libraries inside programs that fork.
#pragma once

#include <mutex>

namespace shardweld {

/// No thread is inside while the process forks: a child finds what it guards whole, and can lock
/// it. A thread that holds one locks, makes and destroys no other.
class ForkSafeMutex {
  public:
    ForkSafeMutex();
    ~ForkSafeMutex();
    ForkSafeMutex(const ForkSafeMutex&) = delete;
    ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    std::mutex mutex_;
};

}  // namespace shardweld

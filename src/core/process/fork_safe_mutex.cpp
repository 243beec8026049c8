#include "fork_safe_mutex.hpp"

#include <pthread.h>
#include <vector>

namespace shardweld {

namespace {

/// All that there are; the one lock that is taken before theirs.
struct ForkSafeMutexes {
    std::mutex mutex;
    std::vector<ForkSafeMutex*> all;
};

ForkSafeMutexes& known_mutexes() {
    static ForkSafeMutexes known;
    return known;
}

void lock_all() {
    known_mutexes().mutex.lock();
    for (ForkSafeMutex* const one : known_mutexes().all) {
        one->lock();
    }
}

void unlock_all() {
    for (ForkSafeMutex* const one : known_mutexes().all) {
        one->unlock();
    }
    known_mutexes().mutex.unlock();
}

}  // namespace

ForkSafeMutex::ForkSafeMutex() {
    // It fails for want of memory only: forks are then as safe as with any mutex.
    [[maybe_unused]] static const int registered =
        ::pthread_atfork(lock_all, unlock_all, unlock_all);
    const std::lock_guard lock(known_mutexes().mutex);
    known_mutexes().all.push_back(this);
}

ForkSafeMutex::~ForkSafeMutex() {
    const std::lock_guard lock(known_mutexes().mutex);
    std::erase(known_mutexes().all, this);
}

}  // namespace shardweld

// Independent pieces of work on several threads.
// Knows nothing of the work.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace shardweld::bench {

/// Calls work(0) ... work(n - 1), up to `n_threads` at a time; rethrows one of the exceptions.
template <typename Work>
void run_jobs(std::size_t n, unsigned n_threads, const Work& work) {
    std::atomic<std::size_t> next = 0;
    std::exception_ptr failure;
    std::mutex guard;
    const auto loop = [&] {
        for (std::size_t i = next++; i < n; i = next++) {
            try {
                work(i);
            } catch (...) {
                const std::lock_guard lock(guard);
                failure = std::current_exception();
                next = n;
            }
        }
    };
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < n_threads; ++i) {
        threads.emplace_back(loop);
    }
    loop();
    threads.clear();  // joins
    if (failure) {
        std::rethrow_exception(failure);
    }
}

}  // namespace shardweld::bench

#include "in_turns.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error_of.hpp"
#include "formats/containers/pickle.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

class Turns {
  public:
    Turns(std::size_t n, const std::function<void(std::size_t, Turn)>& work) : n_(n), work_(work) {}

    /// Any thread: until nothing is left or something has failed.
    void take(Turn turn) {
        const formats::PickleMemory memory;
        for (std::size_t at = next_++; at < n_ && !has_failed_; at = next_++) {
            if (auto failure = error_of([&] { work_(at, turn); })) {
                note(at, std::move(*failure));
            }
        }
    }

    /// Once no thread takes turns any more.
    void rethrow() {
        if (failure_) {
            throw Error(std::move(failure_->second));
        }
    }

  private:
    /// All before the first that fails were begun, and so are done, in every run.
    void note(std::size_t at, Error failure) {
        const std::lock_guard lock(mutex_);
        has_failed_ = true;
        if (!failure_ || at < failure_->first) {
            failure_.emplace(at, std::move(failure));
        }
    }

    std::size_t n_;
    const std::function<void(std::size_t, Turn)>& work_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> has_failed_{false};
    std::mutex mutex_;
    std::optional<std::pair<std::size_t, Error>> failure_;
};

}  // namespace

std::size_t reading_threads(Index ranks_on_node, std::size_t n_files) {
    constexpr Index kOfNode = 32;
    constexpr Index kOfRank = 32;
    constexpr std::size_t kFilesOfThread = 8;
    const Index most = std::clamp(kOfNode / std::max(ranks_on_node, Index{1}), Index{1}, kOfRank);
    return std::min(static_cast<std::size_t>(most), 1 + n_files / kFilesOfThread);
}

void in_turns(std::size_t n, std::size_t n_threads,
              const std::function<void(std::size_t, Turn)>& work) {
    Turns turns(n, work);
    std::vector<std::future<void>> others;
    try {
        while (others.size() + 1 < std::min(n, n_threads)) {
            others.push_back(std::async(std::launch::async, [&] { turns.take(Turn::other); }));
        }
    } catch (const std::system_error&) {
        // No memory for one more stack: those that run take all.
    }
    turns.take(Turn::own);
    for (std::future<void>& other : others) {
        other.get();
    }
    turns.rethrow();
}

}  // namespace shardweld::app

#include "in_turns.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error_of.hpp"
#include "formats/containers/pickle.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

std::size_t reading_threads(Index ranks_on_node, std::size_t n_files) {
    constexpr Index kOfNode = 32;
    constexpr Index kOfRank = 32;
    constexpr std::size_t kFilesOfThread = 8;
    const Index most = std::clamp(kOfNode / std::max(ranks_on_node, Index{1}), Index{1}, kOfRank);
    return std::min(as_size(most), 1 + n_files / kFilesOfThread);
}

void in_turns(std::size_t n, std::size_t n_threads,
              const std::function<void(std::size_t at, bool is_callers)>& work) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> has_failed{false};
    std::mutex mutex;
    std::map<std::size_t, Error> failures;
    const auto take = [&](bool is_callers) {
        const formats::PickleMemory memory;
        for (std::size_t at = next++; at < n && !has_failed; at = next++) {
            if (auto failure = error_of([&] { work(at, is_callers); })) {
                const std::lock_guard lock(mutex);
                has_failed = true;
                failures.emplace(at, std::move(*failure));
            }
        }
    };
    std::vector<std::future<void>> others;
    try {
        while (others.size() + 1 < std::min(n, n_threads)) {
            others.push_back(std::async(std::launch::async, [&] { take(false); }));
        }
    } catch (const std::system_error&) {
        // No memory for one more stack: those that run take all.
    }
    take(true);
    for (std::future<void>& other : others) {
        other.get();
    }
    // All before the first that fails were begun, and so are done, in every run.
    if (!failures.empty()) {
        throw Error(failures.begin()->second);
    }
}

}  // namespace shardweld::app

#include "openings.hpp"

#include <atomic>
#include <cstddef>
#include <vector>

#include "core/lists.hpp"

namespace shardweld::io {

namespace {

/// Those that live, of the whole process.
struct Living {
    std::mutex mutex;
    std::vector<Openings*> all;
    std::atomic<std::size_t> n{0};  ///< of them: one look where there is none
};

Living& living() {
    static Living of_process;
    return of_process;
}

}  // namespace

Openings::Openings() {
    const std::lock_guard lock(living().mutex);
    living().all.push_back(this);
    living().n = living().all.size();
}

Openings::~Openings() {
    const std::lock_guard lock(living().mutex);
    std::erase(living().all, this);
    living().n = living().all.size();
}

std::optional<FileStamp> Openings::stamp_of(const fs::path& path) const {
    const std::lock_guard lock(mutex_);
    return copy_of(find_value(stamps_, path.string()));
}

void Openings::record_opening(const fs::path& path, const FileStamp& stamp) {
    if (living().n == 0) {
        return;
    }
    const std::lock_guard lock(living().mutex);
    for (Openings* const one : living().all) {
        const std::lock_guard own(one->mutex_);
        one->stamps_.try_emplace(path.string(), stamp);
    }
}

}  // namespace shardweld::io

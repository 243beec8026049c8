#include "strips.hpp"

#include <algorithm>
#include <chrono>

#include "core/error_of.hpp"
#include "mpi/comm.hpp"

namespace shardweld::mount {

void Strips::read(std::size_t file, Bytes offset, ByteSpan out) {
    if (!files_.files()[file].in_strips) {
        files_.read(file, offset, out);
        return;
    }
    while (!out.empty()) {
        const Bytes begin = offset / kStrip * kStrip;
        const Bytes n = std::min<Bytes>(out.size(), begin + kStrip - offset);
        const auto strip = get({file, begin});
        std::copy_n(strip->bytes.get() + (offset - begin), n, out.begin());
        out = out.subspan(n);
        offset += n;
    }
}

/// The strip, when it is made: by this thread, where no other one does.
std::shared_ptr<const Strips::KeptStrip> Strips::get(const Key& key) {
    constexpr auto kSoon = std::chrono::milliseconds(1);  // readers let go of theirs
    std::unique_lock lock(mutex_);
    std::shared_ptr<KeptStrip> entry;
    while (entry == nullptr) {
        if (auto* const known = find_value(entries_, key)) {
            entry = *known;
            recent_.splice(recent_.begin(), recent_, entry->place);
        } else if (auto memory = free_memory()) {
            recent_.push_front(key);
            entry = std::make_shared<KeptStrip>(
                KeptStrip{std::move(memory), false, {}, recent_.begin()});
            entries_[key] = entry;
            make(key, *entry, lock);
        } else {
            changes_.wait_for(lock, kSoon);
        }
    }
    while (!entry->is_made) {
        changes_.wait_for(lock, std::chrono::seconds(1));
    }
    if (entry->failure) {
        throw Error(*entry->failure);
    }
    return entry;
}

/// Memory for a strip, of one that is forgotten where there are enough: of those that nobody holds
/// the one that was not used for longest. Null: there is none.
std::unique_ptr<std::byte[]> Strips::free_memory() {
    if (entries_.size() < n_most_) {
        return std::make_unique_for_overwrite<std::byte[]>(kStrip);
    }
    for (auto last = recent_.rbegin(); last != recent_.rend(); ++last) {
        const auto found = entries_.find(*last);
        if (found->second.use_count() == 1) {
            auto memory = std::move(found->second->bytes);
            recent_.erase(found->second->place);
            entries_.erase(found);
            return memory;
        }
    }
    return nullptr;
}

void Strips::make(const Key& key, KeptStrip& entry, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    entry.failure = error_of([&] {
        const auto& [file, begin] = key;
        const Bytes size = std::min(kStrip, files_.files()[file].size - begin);
        files_.read(file, begin, {entry.bytes.get(), size});
    });
    lock.lock();
    entry.is_made = true;
    if (entry.failure) {  // it is tried again when it is asked for again
        recent_.erase(entry.place);
        entries_.erase(key);
    }
    changes_.notify_all();
}

}  // namespace shardweld::mount

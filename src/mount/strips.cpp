#include "strips.hpp"

#include <algorithm>
#include <chrono>
#include <new>

#include <sys/mman.h>

namespace shardweld::mount {

namespace {

// Between two looks whether a reader has given up.
constexpr auto kPatience = std::chrono::milliseconds(200);
// More are no faster on one machine's memory.
constexpr unsigned kMostMakers = 8;
// Strips that are made ahead of a reader that reads in order.
constexpr Bytes kAhead = 2;

/// Memory that goes back to the system as a whole: a heap would keep as much again between strips.
std::shared_ptr<std::byte[]> mapped(Bytes size) {
    void* const place =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return {static_cast<std::byte*>(place),
            [size](std::byte* bytes) { (void)::munmap(bytes, size); }};
}

}  // namespace

/// One strip. All but the bytes is looked at under the mutex.
struct Strips::Entry {
    Key key;
    Bytes size = 0;
    std::shared_ptr<std::byte[]> bytes = {};
    MadeStrip strip = {};
    bool is_made = false;
    std::list<Key>::iterator place = {};  ///< in recent_, when it is made
};

Strips::Strips(UnwrittenFiles& files, Bytes limit) : files_(files), limit_(limit) {
    const unsigned n = std::clamp(std::thread::hardware_concurrency(), 2U, kMostMakers);
    for (unsigned i = 0; i < n; ++i) {
        makers_.emplace_back([this] { run(); });
    }
}

Strips::~Strips() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    has_work_.notify_all();
    for (std::thread& maker : makers_) {
        maker.join();
    }
}

Bytes Strips::size_at(const Key& key) const {
    return std::min(files_.strip_bytes(key.first), files_.files()[key.first].size - key.second);
}

std::pair<Strips::Held, Bytes> Strips::get(std::size_t file, Bytes offset,
                                           const GivesUp& gives_up) {
    const Bytes strip = files_.strip_bytes(file);
    const Key key{file, offset / strip * strip};
    std::unique_lock lock(mutex_);
    const auto entry = want(key, false);
    want_next(key);
    while (!entry->is_made) {
        if (is_made_.wait_for(lock, kPatience) == std::cv_status::timeout && gives_up()) {
            return {nullptr, key.second};
        }
    }
    if (auto* const kept = find_value(entries_, key); kept != nullptr && *kept == entry) {
        recent_.splice(recent_.begin(), recent_, entry->place);
    }
    return {Held(entry, &entry->strip), key.second};
}

/// The entry of a strip, which is made next, or when what is wanted before it is made.
std::shared_ptr<Strips::Entry> Strips::want(const Key& key, bool is_ahead) {
    auto& entry = entries_[key];
    if (entry == nullptr) {
        entry = std::make_shared<Entry>();
        entry->key = key;
        entry->size = size_at(key);
        if (is_ahead) {
            wanted_.push_back(entry);
        } else {
            wanted_.push_front(entry);
        }
        has_work_.notify_one();
    }
    return entry;
}

void Strips::want_next(const Key& key) {
    const Bytes strip = files_.strip_bytes(key.first);
    Bytes& next = next_[key.first];
    const bool is_in_order = key.second == 0 || key.second == next || key.second + strip == next;
    next = key.second + strip;
    for (Bytes i = 1; is_in_order && i <= kAhead && wanted_.size() < makers_.size(); ++i) {
        const Key ahead{key.first, key.second + i * strip};
        if (ahead.second < files_.files()[key.first].size) {
            (void)want(ahead, true);
        }
    }
}

/// Forgets what was not used for long and nobody holds, until there is room for one; that takes the
/// memory of one that is forgotten, if it fits.
bool Strips::make_room(Entry& wanted) {
    const Bytes size = wanted.size;
    for (auto last = recent_.end(); used_ + size > limit_ && last != recent_.begin();) {
        --last;
        const auto entry = entries_.find(*last);
        if (entry->second.use_count() == 1) {
            used_ -= entry->second->size;
            if (entry->second->size == size) {
                wanted.bytes = std::move(entry->second->bytes);
            }
            entries_.erase(entry);
            last = recent_.erase(last);
        }
    }
    const bool has_room = used_ + size <= limit_;
    if (!has_room) {
        wanted.bytes.reset();
    }
    return has_room;
}

void Strips::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        // GCC 12's `wait` without a time needs a newer libstdc++ than RHEL 9 has.
        while (!is_over_ && wanted_.empty()) {
            (void)has_work_.wait_for(lock, std::chrono::hours(1));
        }
        if (is_over_) {
            return;
        }
        const auto entry = wanted_.front();
        if (!make_room(*entry)) {
            has_work_.wait_for(lock,
                               std::chrono::milliseconds(1));  // readers let go of theirs soon
            continue;
        }
        wanted_.pop_front();
        used_ += entry->size;
        lock.unlock();
        make(*entry);
        lock.lock();
        recent_.push_front(entry->key);
        entry->place = recent_.begin();
        entry->is_made = true;
        if (entry->strip.failure) {  // it is tried again when it is asked for again
            recent_.pop_front();
            entries_.erase(entry->key);
            used_ -= entry->size;
        }
        is_made_.notify_all();
    }
}

void Strips::make(Entry& entry) {
    try {
        if (entry.bytes == nullptr) {
            entry.bytes = mapped(entry.size);
        }
        const std::span bytes(entry.bytes.get(), entry.size);
        files_.read(entry.key.first, entry.key.second, bytes);
        entry.strip.bytes = bytes;
    } catch (const Error& error) {
        entry.strip.failure = error;
    } catch (const std::exception& error) {
        entry.strip.failure = Error(ErrorCode::internal, error.what());
    }
}

}  // namespace shardweld::mount

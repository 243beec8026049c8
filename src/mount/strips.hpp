// What was made of a model's files, a strip at a time, and may be read again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "shardweld/error.hpp"

#include "unwritten_files.hpp"

namespace shardweld::mount {

/// Strips of files, made by threads of its own, each once as long as it is kept. All of them, those
/// under way included, have their place in a fixed number of bytes.
class Strips {
  public:
    /// A strip that is there, or why it is not.
    struct MadeStrip {
        std::span<const std::byte> bytes;
        std::optional<Error> failure;
    };

    /// `limit`: bytes of all strips, not less than two of the largest.
    Strips(UnwrittenFiles& files, Bytes limit);
    ~Strips();
    Strips(const Strips&) = delete;
    Strips& operator=(const Strips&) = delete;

    /// The strip that holds an offset of a file, and the begin of it; waits for it as long as
    /// `gives_up` says no. Null when it gave up. The bytes stay while somebody holds them. Those
    /// that are read in order have the next ones made meanwhile.
    using Held = std::shared_ptr<const MadeStrip>;
    std::pair<Held, Bytes> get(std::size_t file, Bytes offset, const GivesUp& gives_up);

  private:
    using Key = std::pair<std::size_t, Bytes>;  ///< a file, and where the strip begins
    struct Entry;
    using Entries = std::map<Key, std::shared_ptr<Entry>>;

    [[nodiscard]] Bytes size_at(const Key& key) const;
    std::shared_ptr<Entry> want(const Key& key, bool is_ahead);
    void want_next(const Key& key);
    bool make_room(Entry& wanted);
    void run();
    void make(Entry& entry);

    UnwrittenFiles& files_;
    Bytes limit_;
    std::mutex mutex_;
    std::condition_variable has_work_, is_made_;
    Entries entries_;
    std::list<Key> recent_;  ///< those that are made, the last used first
    std::deque<std::shared_ptr<Entry>> wanted_;
    std::map<std::size_t, Bytes> next_;  ///< by file: where reading in order goes on
    Bytes used_ = 0;
    bool is_over_ = false;
    std::vector<std::thread> makers_;
};

}  // namespace shardweld::mount

// What was made of a model's files, a strip at a time, and may be read again.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "core/index.hpp"
#include "shardweld/error.hpp"

#include "unwritten_files.hpp"

namespace shardweld::mount {

/// Reads files, those that are made in strips by way of strips that are kept:
/// each is made once as long as it is, by the first thread that asks for it.
class Strips {
  public:
    /// `limit`: bytes of all strips, those under way included.
    Strips(UnwrittenFiles& files, Bytes limit) : files_(files), n_most_(limit / kStrip) {}

    /// UnwrittenFiles::read.
    void read(std::size_t file, Bytes offset, ByteSpan out);

  private:
    using Key = std::pair<std::size_t, Bytes>;  ///< a file, and where the strip begins
    struct KeptStrip {
        std::unique_ptr<std::byte[]> bytes = {};
        bool is_made = false;
        std::optional<Error> failure = {};
        std::list<Key>::iterator place = {};  ///< in recent_
    };

    std::shared_ptr<const KeptStrip> get(const Key& key);
    std::unique_ptr<std::byte[]> free_memory();
    void make(const Key& key, KeptStrip& entry, std::unique_lock<std::mutex>& lock);

    UnwrittenFiles& files_;
    std::size_t n_most_;
    std::mutex mutex_;  ///< of all below
    std::condition_variable changes_;
    std::map<Key, std::shared_ptr<KeptStrip>> entries_;
    std::list<Key> recent_;  ///< of them, the last used first
};

}  // namespace shardweld::mount

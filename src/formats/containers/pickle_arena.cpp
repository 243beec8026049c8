#include "pickle_arena.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "shardweld/formats/containers/pickle.hpp"

namespace shardweld::formats {

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): one for each thread
thread_local PickleMemory* kept_memory = nullptr;

}  // namespace

PickleMemory::PickleMemory() : outer_(std::exchange(kept_memory, this)) {}

PickleMemory::~PickleMemory() {
    kept_memory = outer_;
}

std::vector<std::byte> PickleMemory::spare_bytes() {
    return kept_memory == nullptr ? std::vector<std::byte>()
                                  : std::exchange(kept_memory->bytes_, {});
}

void PickleMemory::keep_bytes(std::vector<std::byte> bytes) {
    if (kept_memory != nullptr && kept_memory->bytes_.size() < bytes.size()) {
        kept_memory->bytes_ = std::move(bytes);
    }
}

PickleArena::~PickleArena() {
    if (kept_memory == nullptr) {
        return;
    }
    auto& kept = kept_memory->chunks_;
    try {
        kept.reserve(kept.size() + chunks_.size());
    } catch (const std::bad_alloc&) {
        return;
    }
    std::move(chunks_.rbegin(), chunks_.rend(), std::back_inserter(kept));
}

std::unique_ptr<std::byte[]> PickleArena::large_chunk() {
    if (kept_memory == nullptr || kept_memory->chunks_.empty()) {
        return std::make_unique_for_overwrite<std::byte[]>(kLargestChunk);
    }
    auto chunk = std::move(kept_memory->chunks_.back());
    kept_memory->chunks_.pop_back();
    return chunk;
}

void* PickleArena::from_new_chunk(std::size_t size) {
    if (size > kLargestChunk / 4) {
        return others_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(size)).get();
    }
    const std::size_t chunk = std::max(next_chunk_, size);
    next_chunk_ = std::min(next_chunk_ * 2, kLargestChunk);
    at_ = chunk == kLargestChunk
              ? chunks_.emplace_back(large_chunk()).get()
              : others_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(chunk)).get();
    end_ = at_ + chunk;
    std::byte* const block = at_;
    at_ += size;
    return block;
}

}  // namespace shardweld::formats

// Memory of a pickle: its bytes and its values. Values are taken in order and given back one by one
// to be used again, or all at once (to a PickleMemory where one lives).
// Knows sizes only; nothing is ever destroyed in it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <string_view>
#include <vector>

namespace shardweld::formats {

class PickleArena {
  public:
    /// `bytes`: of the pickle, if there is one.
    explicit PickleArena(std::vector<std::byte> bytes = {});
    ~PickleArena();
    PickleArena(const PickleArena&) = delete;
    PickleArena& operator=(const PickleArena&) = delete;
    PickleArena(PickleArena&&) = delete;
    PickleArena& operator=(PickleArena&&) = delete;

    [[nodiscard]] std::string_view bytes() const {
        return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
    }
    std::vector<std::byte> take_bytes() { return std::move(bytes_); }

    /// Memory for `size` bytes, aligned to 8.
    [[gnu::always_inline]] inline void* allocate(std::size_t size) {
        const std::size_t words = words_of(size);
        if (words < free_.size() && free_[words] != nullptr) {
            Free* const block = free_[words];
            free_[words] = block->next;
            return block;
        }
        const std::size_t rounded = words * kWord;
        if (rounded > static_cast<std::size_t>(end_ - at_)) {
            return from_new_chunk(rounded);
        }
        std::byte* const block = at_;
        at_ += rounded;
        return block;
    }

    /// Gives back what allocate(size) gave, for allocations of the same size; large blocks are not
    /// used again.
    void release(void* block, std::size_t size) {
        const std::size_t words = words_of(size);
        if (words < free_.size()) {
            free_[words] = new (block) Free{free_[words]};
        }
    }

    /// A copy of `text`.
    std::string_view keep(std::string_view text);

  private:
    struct Free {
        Free* next;
    };
    using Chunks = std::list<std::unique_ptr<std::byte[]>>;
    friend class PickleMemory;
    static constexpr std::size_t kWord = 8;
    static constexpr std::size_t kSmallestChunk = 1024;
    static constexpr std::size_t kLargestChunk = 1U << 20U;

    static std::size_t words_of(std::size_t size) {
        return std::max<std::size_t>((size + kWord - 1) / kWord, 1);
    }

    [[gnu::noinline]] void* from_new_chunk(std::size_t size);

    std::vector<std::byte> bytes_;
    Chunks chunks_;  // of kLargestChunk
    Chunks others_;
    std::size_t next_chunk_;
    std::byte* at_ = nullptr;
    std::byte* end_ = nullptr;
    std::array<Free*, 33> free_{};  // by size in words
};

}  // namespace shardweld::formats

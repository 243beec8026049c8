// Memory of large pickles: what is refused before its bytes take memory, the bytes themselves, and
// values, which are taken in order and given back one by one to be used again, or all at once (to a
// PickleMemory where one lives). Nothing is ever destroyed in it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

class PickleArena {
  public:
    /// `bytes`: of the pickle, if there is one.
    explicit PickleArena(std::vector<std::byte> bytes = {});
    ~PickleArena();
    PickleArena(const PickleArena&) = delete;
    PickleArena& operator=(const PickleArena&) = delete;

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

/// A list of plain values that grows to millions of elements in blocks: nothing that it holds is
/// moved or touched before it is needed.
template <typename T>
class BlockList {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    [[nodiscard]] std::size_t size() const { return size_; }
    /// `at` is below size().
    [[nodiscard]] T& operator[](std::size_t at) { return blocks_[at / kBlock][at % kBlock]; }
    [[nodiscard]] const T& operator[](std::size_t at) const {
        return blocks_[at / kBlock][at % kBlock];
    }
    void push_back(const T& value) {
        if (next_ == end_) {
            add_block();
        }
        *next_++ = value;
        ++size_;
    }
    /// At least `size` elements; the new ones are T().
    void grow(std::size_t size) {
        while (size_ < size) {
            push_back(T());
        }
    }
    void clear() { *this = BlockList(); }

  private:
    static constexpr std::size_t kBlock = 1024;

    [[gnu::noinline]] void add_block() {
        next_ = blocks_.emplace_back(std::make_unique_for_overwrite<T[]>(kBlock)).get();
        end_ = next_ + kBlock;
    }

    std::vector<std::unique_ptr<T[]>> blocks_;
    std::size_t size_ = 0;
    T* next_ = nullptr;  // in the last block
    T* end_ = nullptr;
};

/// A larger pickle is no state dict: tensors' bytes lie outside of it.
inline constexpr Bytes kMaxPickleBytes = Bytes{1} << 32U;

/// The first 64 KiB of a pickle of more than a mebibyte, `size` bytes at `offset` of a file, must
/// read as one that goes on: a file of holes would else be read whole to be refused. Errors as
/// Pickle::parse, and Error(corrupt) when it ends there.
void check_start(const io::InputFile& file, Bytes offset, Bytes size);

/// A file that is one pickle. Error(corrupt) when it is larger than kMaxPickleBytes or does not
/// begin as one.
std::vector<std::byte> read_pickle(const fs::path& path);

/// Error(memory) that names the file whose reading took more than there is.
[[noreturn]] void throw_no_memory(const fs::path& path);

}  // namespace shardweld::formats

// A list that grows to millions of elements in blocks: nothing that it holds is moved or touched
// before it is needed. Knows nothing of its elements but that they are plain values.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace shardweld::formats {

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

}  // namespace shardweld::formats

// A vector of bounded length without heap storage, for values made by the million.
// Knows nothing of its elements but that they are trivially copyable.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "shardweld/core/error.hpp"

namespace shardweld {

template <typename T, std::size_t N>
class InlineVector {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    InlineVector() = default;
    InlineVector(std::initializer_list<T> values) {
        for (const T& value : values) {
            push_back(value);
        }
    }

    /// Appends; throws Error(unsupported) when full.
    void push_back(const T& value) {
        if (size_ == N) {
            throw Error(ErrorCode::unsupported, "a tensor has more axes than shardweld handles (" +
                                                    std::to_string(N) + ")");
        }
        values_[size_++] = value;
    }
    void resize(std::size_t size) {
        if (size > N) {
            throw Error(ErrorCode::unsupported, "a tensor has more axes than shardweld handles (" +
                                                    std::to_string(N) + ")");
        }
        size_ = static_cast<std::uint32_t>(size);
    }
    void pop_back() { --size_; }
    void clear() { size_ = 0; }
    /// Removes the element at position `at`, keeping order.
    void erase_at(std::size_t at) {
        std::copy(begin() + static_cast<std::ptrdiff_t>(at) + 1, end(),
                  begin() + static_cast<std::ptrdiff_t>(at));
        --size_;
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    T& operator[](std::size_t i) { return values_[i]; }
    const T& operator[](std::size_t i) const { return values_[i]; }
    T& back() { return values_[size_ - 1]; }
    [[nodiscard]] const T& back() const { return values_[size_ - 1]; }
    T* begin() { return values_.data(); }
    T* end() { return values_.data() + size_; }
    [[nodiscard]] const T* begin() const { return values_.data(); }
    [[nodiscard]] const T* end() const { return values_.data() + size_; }
    [[nodiscard]] std::span<const T> span() const { return {begin(), size_}; }

    friend bool operator==(const InlineVector& a, const InlineVector& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

  private:
    std::array<T, N> values_{};
    std::uint32_t size_ = 0;
};

}  // namespace shardweld

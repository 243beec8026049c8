// A short vector of bounded length, mostly without heap storage, for values made by the million.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "shardweld/error.hpp"

namespace shardweld {

/// Up to `Here` elements lie in the object itself; the few vectors that grow longer, up to `N`,
/// move to the heap.
template <typename T, std::size_t N, std::size_t Here = N>
class InlineVector {
    static_assert(std::is_trivially_copyable_v<T> && Here <= N);

  public:
    using value_type = T;

    InlineVector() = default;
    InlineVector(std::initializer_list<T> values) {
        for (const T& value : values) {
            push_back(value);
        }
    }
    ~InlineVector() = default;
    InlineVector(const InlineVector& other)
        : here_(other.here_),
          all_(other.all_ ? std::make_unique<All>(*other.all_) : nullptr),
          size_(other.size_) {}
    InlineVector& operator=(const InlineVector& other) {
        if (this != &other) {
            *this = InlineVector(other);
        }
        return *this;
    }
    InlineVector(InlineVector&& other) noexcept
        : here_(other.here_), all_(std::move(other.all_)), size_(std::exchange(other.size_, 0)) {}
    InlineVector& operator=(InlineVector&& other) noexcept {
        here_ = other.here_;
        all_ = std::move(other.all_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }

    /// Appends; throws Error(unsupported) when full.
    void push_back(const T& value) {
        const T kept = value;  // may be one of ours, which growing moves
        resize(size_ + std::size_t{1});
        back() = kept;
    }
    void resize(std::size_t size) {
        if (size > N) {
            throw Error(ErrorCode::unsupported, "a tensor has more axes than shardweld handles (" +
                                                    std::to_string(N) + ")");
        }
        if (size > Here && !all_) {
            all_ = std::make_unique<All>();
            std::ranges::copy(here_, all_->begin());
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
    T& operator[](std::size_t i) { return begin()[i]; }
    const T& operator[](std::size_t i) const { return begin()[i]; }
    T& back() { return begin()[size_ - 1]; }
    [[nodiscard]] const T& back() const { return begin()[size_ - 1]; }
    T* begin() { return all_ ? all_->data() : here_.data(); }
    T* end() { return begin() + size_; }
    [[nodiscard]] const T* begin() const { return all_ ? all_->data() : here_.data(); }
    [[nodiscard]] const T* end() const { return begin() + size_; }
    [[nodiscard]] std::span<const T> span() const { return {begin(), size_}; }

    friend bool operator==(const InlineVector& a, const InlineVector& b) {
        return std::ranges::equal(a, b);
    }

  private:
    using All = std::array<T, N>;

    std::array<T, Here> here_{};
    std::unique_ptr<All> all_;  ///< once longer than `Here`
    std::uint32_t size_ = 0;
};

}  // namespace shardweld

// Lists that many objects have, most of them none or one and the same: a pointer each, and one
// memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "lists.hpp"

namespace shardweld {

/// A list of which copies share one memory until one of them is changed. It takes the room of a
/// pointer; an empty one nothing else. Copies may be read, copied and destroyed by several threads
/// at once.
template <typename T>
// NOLINTNEXTLINE(cppcoreguidelines-special-member-functions): one assignment copies and moves
class SharedList {
  public:
    using value_type = T;

    SharedList() = default;
    SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}
    SharedList(std::vector<T> items) {  // NOLINT(google-explicit-constructor): as a vector
        if (!items.empty()) {
            held_ = new (::operator new(bytes_of(items.size()))) Held{{1}, items.size()};
            std::ranges::uninitialized_move(items, std::span(held_->items(), items.size()));
        }
    }
    SharedList(const SharedList& other) : held_(other.held_) {
        if (held_ != nullptr) {
            held_->n_owners.fetch_add(1, std::memory_order_relaxed);
        }
    }
    SharedList(SharedList&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    SharedList& operator=(SharedList other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ~SharedList() {
        if (held_ != nullptr && held_->n_owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            std::destroy_n(held_->items(), held_->size);
            ::operator delete(held_);
        }
    }

    [[nodiscard]] bool empty() const { return held_ == nullptr; }
    [[nodiscard]] std::size_t size() const { return held_ == nullptr ? 0 : held_->size; }
    [[nodiscard]] const T* data() const { return held_ == nullptr ? nullptr : held_->items(); }
    [[nodiscard]] const T* begin() const { return data(); }
    [[nodiscard]] const T* end() const { return data() + size(); }
    const T& operator[](std::size_t at) const { return data()[at]; }
    [[nodiscard]] const T& front() const { return *begin(); }
    [[nodiscard]] const T& back() const { return end()[-1]; }
    operator std::vector<T>() const {  // NOLINT(google-explicit-constructor): the same items
        return std::vector<T>(begin(), end());
    }
    void clear() { *this = SharedList(); }

    /// Its items, for this list alone to change.
    [[nodiscard]] std::span<T> own() {
        if (!empty() && held_->n_owners > 1) {
            *this = std::vector<T>(begin(), end());
        }
        return {held_ == nullptr ? nullptr : held_->items(), size()};
    }
    /// Calls `change` with its items as a vector, which become the list.
    template <typename Change>
    void change(const Change& change) {
        std::vector<T> items(begin(), end());
        change(items);
        *this = std::move(items);
    }
    /// Calls `change` with each item, for this list alone.
    template <typename Change>
    void change_each(const Change& change) {
        std::ranges::for_each(own(), change);
    }
    void push_back(T item) {
        change([&](std::vector<T>& items) { items.push_back(std::move(item)); });
    }
    void append(const SharedList& more) {
        if (empty()) {
            *this = more;
        } else if (!more.empty()) {
            change([&](std::vector<T>& items) { append_all(items, more); });
        }
    }
    /// Its part of the heap that it shares with its copies.
    [[nodiscard]] std::size_t held_bytes() const {
        return empty() ? 0 : bytes_of(size()) / held_->n_owners;
    }

    friend bool operator==(const SharedList& a, const SharedList& b) {
        return a.held_ == b.held_ || std::ranges::equal(a, b);
    }

  private:
    struct alignas(std::max(alignof(T), alignof(std::size_t))) Held {
        std::atomic<std::uint32_t> n_owners;
        std::size_t size;

        /// They lie behind it.
        T* items() { return reinterpret_cast<T*>(this + 1); }
    };
    // Another `new` has no part in memory that processes have in common.
    static_assert(alignof(Held) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

    static std::size_t bytes_of(std::size_t n_items) { return sizeof(Held) + n_items * sizeof(T); }

    Held* held_ = nullptr;
};

}  // namespace shardweld

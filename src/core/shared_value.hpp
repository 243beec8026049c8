// Values that many objects have, most of them none or one and the same: a pointer each, and one
// memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "lists.hpp"

namespace shardweld {

/// A value of which copies share one memory until one of them is changed, by what `own` returned.
/// It takes the room of a pointer; an empty one nothing else. Copies may be read, copied and
/// destroyed by several threads at once.
template <typename T>
class SharedValue {
  public:
    SharedValue() = default;
    // As T's own.
    // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
    template <typename Value>
    requires(std::convertible_to<Value, T> &&
             !std::derived_from<std::remove_cvref_t<Value>, SharedValue>)
        SharedValue(Value&& value) {
        T own(std::forward<Value>(value));
        held_ = own.empty() ? nullptr : new Held{{1}, std::move(own)};
    }
    SharedValue(const SharedValue& other) : held_(other.held_) {
        if (held_ != nullptr) {
            held_->n_owners.fetch_add(1, std::memory_order_relaxed);
        }
    }
    SharedValue(SharedValue&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    SharedValue& operator=(SharedValue other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ~SharedValue() {
        if (held_ != nullptr && held_->n_owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete held_;
        }
    }

    [[nodiscard]] const T& value() const {
        static const T none;
        return held_ == nullptr ? none : held_->value;
    }
    operator const T&() const { return value(); }  // NOLINT(google-explicit-constructor)
    [[nodiscard]] bool empty() const { return held_ == nullptr || held_->value.empty(); }
    [[nodiscard]] std::size_t size() const { return held_ == nullptr ? 0 : held_->value.size(); }
    void clear() { *this = SharedValue(); }

    /// The value, for this object alone to change.
    [[nodiscard]] T& own() {
        if (held_ == nullptr || held_->n_owners.load(std::memory_order_acquire) > 1) {
            SharedValue copy;
            copy.held_ = new Held{{1}, value()};
            std::swap(held_, copy.held_);
        }
        return held_->value;
    }
    /// Its part of the heap that it shares with its copies.
    [[nodiscard]] std::size_t held_bytes() const {
        return held_ == nullptr
                   ? 0
                   : (sizeof(Held) + held_->value.capacity() * sizeof(typename T::value_type)) /
                         held_->n_owners;
    }

    friend bool operator==(const SharedValue& a, const SharedValue& b) {
        return a.held_ == b.held_ || a.value() == b.value();
    }

  private:
    struct Held {
        std::atomic<std::uint32_t> n_owners;
        T value;
    };

    Held* held_ = nullptr;
};

/// A shared list, which is read as a std::vector is.
template <typename T>
class SharedList : public SharedValue<std::vector<T>> {
  public:
    using value_type = T;
    using SharedValue<std::vector<T>>::SharedValue;

    SharedList() = default;
    SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}

    [[nodiscard]] const std::vector<T>& items() const { return this->value(); }
    [[nodiscard]] auto begin() const { return items().begin(); }
    [[nodiscard]] auto end() const { return items().end(); }
    const T& operator[](std::size_t at) const { return items()[at]; }
    [[nodiscard]] const T& front() const { return items().front(); }
    [[nodiscard]] const T& back() const { return items().back(); }

    /// Calls `change` with each item, for this list alone; without items nothing is done.
    template <typename Change>
    void change_each(const Change& change) {
        if (!this->empty()) {
            std::ranges::for_each(this->own(), change);
        }
    }
    void push_back(T item) { this->own().push_back(std::move(item)); }
    void append(std::vector<T> more) {
        if (this->empty()) {
            *this = SharedList(std::move(more));
        } else if (!more.empty()) {
            append_all(this->own(), std::move(more));
        }
    }
};

}  // namespace shardweld

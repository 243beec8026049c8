// A value that few objects of many have: where it is not, it takes the room of a pointer.
#pragma once

#include <memory>
#include <utility>

namespace shardweld {

/// As std::optional, but with the value on the heap; copies are deep.
template <typename T>
class OptionalBox {
  public:
    using value_type = T;

    OptionalBox() = default;
    // As std::optional's. NOLINTNEXTLINE(google-explicit-constructor)
    OptionalBox(T value) : value_(std::make_unique<T>(std::move(value))) {}
    ~OptionalBox() = default;
    OptionalBox(const OptionalBox& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
    OptionalBox& operator=(const OptionalBox& other) {
        if (this != &other) {
            value_ = other ? std::make_unique<T>(*other) : nullptr;
        }
        return *this;
    }
    OptionalBox(OptionalBox&&) noexcept = default;
    OptionalBox& operator=(OptionalBox&&) noexcept = default;

    T& emplace() {
        value_ = std::make_unique<T>();
        return *value_;
    }
    [[nodiscard]] bool has_value() const { return value_ != nullptr; }
    explicit operator bool() const { return has_value(); }
    T& operator*() { return *value_; }
    const T& operator*() const { return *value_; }
    T* operator->() { return value_.get(); }
    const T* operator->() const { return value_.get(); }

  private:
    std::unique_ptr<T> value_;
};

}  // namespace shardweld

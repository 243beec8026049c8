// A value that few objects of many have: where it is not, it takes the room of a pointer.
#pragma once

#include <memory>
#include <utility>

namespace shardweld {

/// As std::optional, but with the value on the heap; copies are deep.
template <typename T>
class Rare {
  public:
    using value_type = T;

    Rare() = default;
    // As std::optional's. NOLINTNEXTLINE(google-explicit-constructor)
    Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}
    ~Rare() = default;
    Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
    Rare& operator=(const Rare& other) {
        if (this != &other) {
            value_ = other ? std::make_unique<T>(*other) : nullptr;
        }
        return *this;
    }
    Rare(Rare&&) noexcept = default;
    Rare& operator=(Rare&&) noexcept = default;

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

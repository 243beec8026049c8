// The library's errors as exceptions with its own reasons.
#pragma once

#include <string>
#include <utility>

#include <hdf5.h>

namespace shardweld::hdf5 {

/// An HDF5 identifier that is closed at the end of its scope.
class Handle {
  public:
    using Close = herr_t (*)(hid_t);

    Handle() = default;
    Handle(hid_t id, Close close) : id_(id), close_(close) {}
    Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(id_, other.id_);
        std::swap(close_, other.close_);
        return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { (void)close(); }

    [[nodiscard]] hid_t get() const { return id_; }
    [[nodiscard]] bool is_valid() const { return id_ >= 0; }
    /// Negative when the library cannot close it.
    herr_t close() { return id_ >= 0 ? close_(std::exchange(id_, -1)) : 0; }

  private:
    hid_t id_ = -1;
    Close close_ = nullptr;
};

/// The library prints nothing by itself from now on.
void keep_quiet();

/// Throws std::runtime_error "WHAT: REASON", with the innermost reason of the library.
[[noreturn]] void fail(const std::string& what);

/// The value of a call; negative values are failures.
template <typename T>
T checked(T value, const std::string& what) {
    if (value < 0) {
        fail(what);
    }
    return value;
}

inline Handle checked(hid_t id, Handle::Close close, const std::string& what) {
    return {checked(id, what), close};
}

}  // namespace shardweld::hdf5

// The library's errors as exceptions with its own reasons.
#pragma once

#include <string>

#include "handle.hpp"

namespace shardweld::hdf5 {

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

// When a file was last changed, as stat(2) tells it.
#pragma once

#include <sys/stat.h>

#include "shardweld/core/index.hpp"

namespace shardweld::io {

/// The last change of its bytes, ns since 1970.
inline Index modified_ns(const struct stat& status) {
    constexpr Index kSecond = 1'000'000'000;
    return status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec;
}

}  // namespace shardweld::io

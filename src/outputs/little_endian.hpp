// Numbers in the bytes of a file's header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardweld::outputs {

/// The lowest `size` bytes of a number, the least significant first.
inline void append_number(std::string& bytes, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
        bytes += static_cast<char>((value >> (8 * i)) & 0xFFU);
    }
}

}  // namespace shardweld::outputs

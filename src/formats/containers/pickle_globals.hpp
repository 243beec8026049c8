// Which names in a pickle are denied, which are known, which mean something inside the machine.
// Knows names only; never imports or calls one.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardweld::formats {

enum class GlobalKind : std::uint8_t {
    known,   ///< names that torch's and megatron's own files use as a matter of course
    inert,   ///< any other
    denied,  ///< names that only an attack would use, also as part of a dotted path
    size,    ///< known, and the machine does something when they are called
    encode,
    reconstructor
};
GlobalKind kind_of_global(std::string_view module, std::string_view name);

}  // namespace shardweld::formats

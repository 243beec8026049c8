// Which names in a pickle are denied, which are known, which need a meaning inside the machine.
// Knows names only; never imports or calls one.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardweld::formats {

/// True for a name that only an attack would use, also as part of a dotted path.
bool is_denied_global(std::string_view module, std::string_view name);

/// True for names torch's and megatron's own files use as a matter of course.
bool is_known_global(std::string_view module, std::string_view name);

/// What the machine does when such a global is called; kept in the global's `detail`.
enum class SpecialGlobal : std::uint8_t { none, size, encode, reconstructor };
SpecialGlobal special_global(std::string_view module, std::string_view name);

}  // namespace shardweld::formats

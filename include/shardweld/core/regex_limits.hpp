// What std::regex reads without a look at its size.
#pragma once

#include <string_view>

namespace shardweld {

/// No name has a number of so many digits, and an int does not hold it.
inline constexpr int kTooManyDigits = 10;

/// Whether an expression holds such a number: in {n}, or of a group to refer back to.
bool has_long_number(std::string_view expression);

}  // namespace shardweld

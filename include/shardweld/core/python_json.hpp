// NaN and infinities in JSON texts: Python's json module writes and reads them, JSON has none.
// Pure text; knows no field.
#pragma once

#include <string>
#include <string_view>

namespace shardweld {

/// The text with each NaN, Infinity and -Infinity outside of strings replaced by a string of the
/// same length, so that any parser takes it and positions stay. The text itself where there is
/// none, and where its own strings could be mistaken for those (a parser then says what is wrong).
std::string without_nonfinite(std::string_view text);

/// Text that was made of such values again: the strings become what they stood for.
std::string with_nonfinite(std::string text);

/// The number that a string of without_nonfinite stands for; 0 for any other.
double nonfinite_value(std::string_view text);

}  // namespace shardweld

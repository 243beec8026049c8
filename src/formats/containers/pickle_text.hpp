// Text as pickles spell it, decoded; nullopt where it is malformed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardweld::formats {

/// Python's repr() of a text: in quotes, with escapes.
std::optional<std::string> text_of_repr(std::string_view text);

/// raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
std::optional<std::string> text_of_raw_unicode(std::string_view text);

/// The bytes whose values are the code points of UTF-8 `text`; nullopt where one is above 255.
std::optional<std::string> bytes_of_latin1(std::string_view text);

}  // namespace shardweld::formats

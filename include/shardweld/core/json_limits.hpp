// What of a JSON text would cost its parser more than its size tells, found before it is parsed.
// Knows brackets, quotes and colons; whether the text is valid JSON is the parser's to say.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace shardweld {

inline constexpr std::size_t kDeepestJson = 64;

/// The byte at which the text is nested deeper than kDeepestJson, which no file of a checkpoint is:
/// values are copied, compared and printed by recursion.
std::optional<std::size_t> too_deep_at(std::string_view text);

/// The byte at which objects have more fields (about 30 000 in one) than a parser that keeps their
/// order, and so looks through those before, gets through in seconds.
std::optional<std::size_t> too_wide_at(std::string_view text);

}  // namespace shardweld

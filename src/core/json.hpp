// The one way from the text of a JSON file to values: within limits, by nlohmann's parser; and the
// NaN and infinities that Python's json module writes, which JSON has none of.
// Includes nothing of that library, which an installed shardweld does without; callers do.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shardweld {

inline constexpr std::size_t kDeepestJson = 64;

/// The byte at which the text is nested deeper than kDeepestJson, which no file of a checkpoint is:
/// values are copied, compared and printed by recursion.
std::optional<std::size_t> too_deep_at(std::string_view text);

/// The byte at which objects have more fields (about 30 000 in one) than a parser that keeps their
/// order, and so looks through those before, gets through in seconds.
std::optional<std::size_t> too_wide_at(std::string_view text);

/// Far more than any number written out in full has (a double: 1,077 characters).
inline constexpr std::size_t kLongestNumber = 1100;

/// The byte at which a number is longer than that: reading it takes the parser time and nothing can
/// stop it meanwhile.
std::optional<std::size_t> too_long_at(std::string_view text);

/// What to do about JsonFlaw::mark.
inline constexpr const char* kMarkHint = "save it as UTF-8 without one";

/// The kinds of text that are not read as JSON.
enum class JsonFlaw {
    deep,    ///< nested deeper than kDeepestJson
    wide,    ///< more fields than a parser that keeps their order gets through
    mark,    ///< a byte order mark before it, which the parsers that load models refuse
    syntax,  ///< no valid JSON
    number   ///< a number that no type holds, or longer than kLongestNumber
};

/// Why a text is not read.
struct JsonFault {
    JsonFlaw kind = JsonFlaw::syntax;
    std::size_t at = 0;  ///< byte, from 0; of a number: unknown
    std::string what;    ///< the parser's words, "" where it was not asked
};

/// What of a text is beyond the limits; `keeps_order`: of a parser that does.
std::optional<JsonFault> fault_of_size(std::string_view text, bool keeps_order);

/// What is no JSON, and the parser passes over: a byte order mark before the text, and a NUL, which
/// it takes for the end, whatever follows.
std::optional<JsonFault> fault_of_bytes(std::string_view text);

/// What an exception of the parser's library says, without the name and number in brackets that it
/// begins with.
std::string reason_in(std::string_view what);

/// The text, which is UTF-8, in quotes.
std::string json_string(std::string_view text);

// Compiled once, for nlohmann::json and ordered_json: each unit that has the parser made for itself
// takes some seconds longer.

/// The value, of type nlohmann::json or ordered_json; a discarded one (is_discarded()) when the
/// text is not valid JSON or beyond the limits, with the reason in `fault` if it is given. `visit`
/// may take values out while the text is read, so that large ones are never in memory as a tree.
template <typename Json>
Json parse_json(std::string_view text, std::optional<JsonFault>* fault = nullptr,
                const typename Json::parser_callback_t& visit = nullptr);

/// The value of a text that is within the limits, because it was read before or written here; a
/// discarded one when it is not valid JSON.
template <typename Json>
Json parse_known_json(std::string_view text);

/// Tells `listener` what is in the text; false when it is not valid JSON, beyond the limits (then
/// the listener gets nothing) or not read to its end.
template <typename Json>
bool hear_json(std::string_view text, typename Json::json_sax_t& listener);

/// The text with each NaN, Infinity and -Infinity outside of strings replaced by a string of the
/// same length, so that any parser takes it and positions stay. The text itself where there is
/// none, and where its own strings could be mistaken for those (a parser then says what is wrong).
std::string without_nonfinite(std::string_view text);

/// Text that was made of such values again: the strings become what they stood for.
std::string with_nonfinite(std::string text);

/// The number that a string of without_nonfinite stands for; 0 for any other.
double nonfinite_value(std::string_view text);

}  // namespace shardweld

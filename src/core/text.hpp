// Text the whole program agrees on: natural order, sizes, lists for messages.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index.hpp"
#include "lists.hpp"

namespace shardweld {

/// Natural order: runs of digits compare as numbers ("layers.9." before "layers.10."), the rest as
/// bytes; texts equal that way (leading zeros) fall back to byte order, so this is a total order.
bool natural_less(std::string_view a, std::string_view b);
/// Negative, 0 or positive; 0 for texts that differ in leading zeros at most.
int natural_compare(std::string_view a, std::string_view b);

/// "5GB" = 5e9, "5GiB" and bare "5G" = 5 * 2^30, "64" = 64 bytes; B, KB..TB, KiB..TiB, K..T;
/// fractions
/// ("1.5GB") allowed. nullopt when the text is none of these or overflows.
std::optional<Bytes> parse_size(std::string_view text);

/// What printf prints, at most 255 bytes.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// Whether a text or a letter stands anywhere in a text.
template <typename Part>
bool has_part(std::string_view text, const Part& part) {
    return text.find(part) != std::string_view::npos;
}

/// A stream that keeps what it is given, and throws where memory runs out: others leave out what
/// has no room, without a word.
std::ostringstream text_stream();

/// "4.31 GB", decimal units, for people.
std::string human_bytes(Bytes bytes);
/// "4.31 GB": a value in the largest of units, each a thousand of the one before, that it reaches.
std::string in_thousands(double value, std::span<const char* const> units);

/// "1 file", "2 files".
template <std::integral Count>
std::string counted(Count count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// The verb that agrees with so many: `one` of one, else `several`.
std::string verb_of(std::size_t count, const char* one, const char* several);

/// Six digits, as %g.
std::string number_text(double number);

/// A number's `digits` with zeros before them, `width` of them at least: "003".
std::string zero_filled(const std::string& digits, std::size_t width);

/// With small letters for ASCII's capital ones.
std::string in_small_letters(std::string_view text);

/// "[3, 64, 32]".
std::string shape_text(std::span<const Index> shape);

/// Text from a file made safe to print: unseen characters and bytes that are no UTF-8 are escaped
/// ("\x1b"), and the rest is left as it is. Cut at `limit` bytes, between two characters.
std::string printable(std::string_view text, std::size_t limit = 200);

/// The elements' texts with `separator` between them.
template <typename Range, typename TextOf = std::identity>
std::string joined(const Range& range, std::string_view separator, TextOf text_of = {}) {
    std::string text;
    for (std::string_view between; const auto& element : range) {
        text.append(between).append(text_of(element));
        between = separator;
    }
    return text;
}

/// "a, b, c", each made safe to print; of more than eight the first eight and ", ...".
std::string listed(const std::vector<std::string>& texts);

/// The code point of a byte that is no UTF-8.
inline constexpr char32_t kNoPoint = 0xFFFFFFFF;

/// One character of a UTF-8 text.
struct Character {
    std::string_view bytes;  ///< one, if it is no UTF-8
    char32_t point = kNoPoint;
};

/// Takes the first character off the text, which is not empty.
Character take_character(std::string_view& text);

/// Whether the text is valid UTF-8: JSON and what reads it take nothing else.
bool is_utf8(std::string_view text);

/// Whether the character shows nothing or changes how others are shown: controls, marks of
/// direction, separators of lines; also kNoPoint. No text of a file may bring it to a terminal or a
/// page.
bool is_unseen(char32_t point);

/// ASCII only, whatever the locale says.
constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Whether a name in a program may begin with it: a letter or '_'.
constexpr bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
/// Whether such a name may go on with it.
constexpr bool is_name_part(char c) {
    return is_name_start(c) || is_digit(c);
}

/// Splits at every `separator`; "" gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Without leading and trailing blanks, tabs and line ends.
std::string_view trim(std::string_view text);
/// `text` with `to` in the place of each `from`, which is not empty.
std::string replaced(std::string text, std::string_view from, std::string_view to);
/// The whole text as a decimal number without sign; nullopt on anything else or overflow.
std::optional<Index> parse_index(std::string_view text);
/// The whole text as a number of type T: from_chars' forms and range.
template <typename T>
std::optional<T> parsed_number(std::string_view text) {
    T number{};
    const char* const end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, number);
    return status == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

/// The name with every run of digits replaced by '#'.
std::string digits_hidden(std::string_view name);

/// Whether the whole `name` matches `glob`, in which '*' stands for any text.
bool glob_matches(std::string_view glob, std::string_view name);

/// Whether one of the globs does.
template <typename Globs>
bool any_glob_matches(const Globs& globs, std::string_view name) {
    return std::ranges::any_of(globs, [&](const auto& glob) { return glob_matches(glob, name); });
}

}  // namespace shardweld

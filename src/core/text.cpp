#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <sstream>
#include <utility>

namespace shardweld {

namespace {

/// End of the run of digits (or of non-digits) that starts at `at`.
std::size_t run_end(std::string_view text, std::size_t at) {
    const bool digits = is_digit(text[at]);
    while (at < text.size() && is_digit(text[at]) == digits) {
        ++at;
    }
    return at;
}

/// Three-way comparison of digit runs as numbers of any length.
int compare_numbers(std::string_view a, std::string_view b) {
    a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
    b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
    if (a.size() != b.size()) {
        return a.size() < b.size() ? -1 : 1;
    }
    return a.compare(b);
}

/// Bytes of the code point that begins with `lead`, and the smallest value that needs as many.
std::pair<std::size_t, std::uint32_t> code_point_size(unsigned char lead) {
    if (lead < 0x80U) {
        return {1, 0};
    }
    if (lead < 0xE0U) {
        return {lead < 0xC2U ? 0 : 2, 0x80};
    }
    return lead < 0xF0U ? std::pair<std::size_t, std::uint32_t>{3, 0x800}
                        : std::pair<std::size_t, std::uint32_t>{lead < 0xF5U ? 4 : 0, 0x10000};
}

/// The code point of the character that the text begins with, which has `size` bytes.
char32_t point_of(std::string_view text, std::size_t size, std::uint32_t smallest) {
    if (size == 0 || size > text.size()) {
        return kNoPoint;
    }
    const auto lead = static_cast<unsigned char>(text.front());
    char32_t point = size == 1 ? lead : lead & (0x7FU >> size);
    for (std::size_t k = 1; k < size; ++k) {
        const auto byte = static_cast<unsigned char>(text[k]);
        if ((byte & 0xC0U) != 0x80U) {
            return kNoPoint;
        }
        point = point << 6U | (byte & 0x3FU);
    }
    const bool is_surrogate = point >= 0xD800 && point < 0xE000;
    const bool is_valid = point >= smallest && !is_surrogate && point <= 0x10FFFF;
    return is_valid ? point : kNoPoint;
}

/// "\\x1b" for each byte.
std::string hex_escaped(std::string_view bytes) {
    std::string out;
    for (const char c : bytes) {
        out += formatted("\\x%02x", static_cast<unsigned char>(c));
    }
    return out;
}

}  // namespace

std::string listed(const std::vector<std::string>& texts) {
    constexpr std::size_t kMost = 8;
    std::string list;
    for (std::size_t i = 0; i < std::min(texts.size(), kMost); ++i) {
        list += (i == 0 ? "" : ", ") + printable(texts[i]);
    }
    return list + (texts.size() > kMost ? ", ..." : "");
}

Character take_character(std::string_view& text) {
    const auto [size, smallest] = code_point_size(static_cast<unsigned char>(text.front()));
    const char32_t point = point_of(text, size, smallest);
    const std::string_view bytes = text.substr(0, point == kNoPoint ? 1 : size);
    text.remove_prefix(bytes.size());
    return {bytes, point};
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        if (take_character(text).point == kNoPoint) {
            return false;
        }
    }
    return true;
}

bool is_unseen(char32_t point) {
    using Range = std::pair<char32_t, char32_t>;
    constexpr auto kUnseen = std::to_array<Range>({
        {0, 0x1F},           // controls
        {0x7F, 0x9F},        // more of them
        {0xAD, 0xAD},        // soft hyphen
        {0x61C, 0x61C},      // a mark of direction
        {0x200B, 0x200B},    // a space of no width; the joiners behind it belong to words
        {0x200E, 0x200F},    // marks of direction
        {0x2028, 0x202E},    // separators of lines, and directions
        {0x2060, 0x206F},    // signs of no width, and directions
        {0xFEFF, 0xFEFF},    // mark of byte order
        {0xFFF9, 0xFFFB},    // annotations
        {0xE0000, 0xE007F},  // tags
        {kNoPoint, kNoPoint},
    });
    return std::ranges::any_of(
        kUnseen, [&](const Range& range) { return range.first <= point && point <= range.second; });
}

int natural_compare(std::string_view a, std::string_view b) {
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < a.size() && j < b.size()) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            const std::size_t i_end = run_end(a, i);
            const std::size_t j_end = run_end(b, j);
            if (const int order = compare_numbers(a.substr(i, i_end - i), b.substr(j, j_end - j))) {
                return order;
            }
            i = i_end;
            j = j_end;
        } else if (a[i] != b[j]) {
            return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]) ? -1 : 1;
        } else {
            ++i;
            ++j;
        }
    }
    return static_cast<int>(i < a.size()) - static_cast<int>(j < b.size());
}

bool natural_less(std::string_view a, std::string_view b) {
    const int order = natural_compare(a, b);
    return order != 0 ? order < 0 : a < b;
}

std::optional<Bytes> parse_size(std::string_view text) {
    static constexpr std::array<std::pair<std::string_view, double>, 15> kUnits = {{
        {"", 1},
        {"B", 1},
        {"KB", 1e3},
        {"kB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 0x1p10},
        {"MiB", 0x1p20},
        {"GiB", 0x1p30},
        {"TiB", 0x1p40},
        {"K", 0x1p10},
        {"M", 0x1p20},
        {"G", 0x1p30},
        {"T", 0x1p40},
    }};
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (status != std::errc() || text.empty() || !is_digit(text[0])) {
        return std::nullopt;
    }
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    for (const auto& [name, factor] : kUnits) {
        if (unit == name) {
            const double bytes = number * factor;
            return bytes < 0x1p63 ? std::optional<Bytes>(static_cast<Bytes>(bytes)) : std::nullopt;
        }
    }
    return std::nullopt;
}

std::string formatted(const char* format, ...) {
    std::array<char, 256> text{};
    std::va_list values;
    va_start(values, format);
    (void)std::vsnprintf(text.data(), text.size(), format, values);
    va_end(values);
    return text.data();
}

std::string in_thousands(double value, std::span<const char* const> units) {
    std::size_t unit = 0;
    while (value >= 999.5 && unit + 1 < units.size()) {
        value /= 1000;
        ++unit;
    }
    const int digits = unit == 0 || value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2);
    return formatted("%.*f%s", digits, value, units[unit]);
}

std::ostringstream text_stream() {
    std::ostringstream stream;
    stream.exceptions(std::ios::badbit);
    return stream;
}

std::string human_bytes(Bytes bytes) {
    static constexpr const char* kUnits[] = {" B", " kB", " MB", " GB", " TB", " PB"};
    return in_thousands(static_cast<double>(bytes), kUnits);
}

std::string verb_of(std::size_t count, const char* one, const char* several) {
    return count == 1 ? one : several;
}

std::string number_text(double number) {
    return formatted("%.6g", number);
}

std::string zero_filled(const std::string& digits, std::size_t width) {
    return std::string(width - std::min(width, digits.size()), '0') + digits;
}

std::string in_small_letters(std::string_view text) {
    std::string small(text);
    for (char& letter : small) {
        letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
    return small;
}

std::string shape_text(std::span<const Index> shape) {
    constexpr std::size_t kMostShown = 32;
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(shape.size(), kMostShown); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    }
    const bool is_cut = shape.size() > kMostShown;
    return text + (is_cut ? ", ... " + std::to_string(shape.size()) + " axes]" : "]");
}

std::string printable(std::string_view text, std::size_t limit) {
    std::string out;
    while (!text.empty()) {
        const auto [bytes, point] = take_character(text);
        if (bytes.size() > limit) {
            return out + "...";
        }
        limit -= bytes.size();
        out += is_unseen(point) ? hex_escaped(bytes) : std::string(bytes);
    }
    return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    for (std::size_t at = text.find(separator); at != std::string_view::npos;
         at = text.find(separator, begin)) {
        parts.push_back(text.substr(begin, at - begin));
        begin = at + 1;
    }
    parts.push_back(text.substr(begin));
    return parts;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
    }
    return text;
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) {
        return {};
    }
    return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<Index> parse_index(std::string_view text) {
    return text.empty() || !is_digit(text[0]) ? std::nullopt : parsed_number<Index>(text);
}

std::string digits_hidden(std::string_view name) {
    std::string out(name);  // no longer than it: written in place, for thousands of names
    std::size_t end = 0;
    for (const std::size_t i : indices(name)) {
        if (!is_digit(name[i])) {
            out[end++] = name[i];
        } else if (i == 0 || !is_digit(name[i - 1])) {
            out[end++] = '#';
        }
    }
    out.resize(end);
    return out;
}

bool glob_matches(std::string_view glob, std::string_view name) {
    std::size_t g = 0;
    std::size_t n = 0;
    std::size_t star = std::string_view::npos;
    std::size_t resume = 0;
    while (n < name.size()) {
        if (g < glob.size() && glob[g] == '*') {
            star = g++;
            resume = n;
        } else if (g < glob.size() && glob[g] == name[n]) {
            ++g;
            ++n;
        } else if (star != std::string_view::npos) {
            g = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    return glob.find_first_not_of('*', g) == std::string_view::npos;
}

}  // namespace shardweld

#include "table.hpp"

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

struct Columns {
    char32_t first;
    char32_t last;
    std::size_t each;
};

std::size_t columns_of_one(char32_t point) {
    constexpr auto kOthers = std::to_array<Columns>({
        {0x300, 0x36F, 0},  // marks on the character before
        {0x1100, 0x115F, 2},
        {0x200B, 0x200F, 0},
        {0x20D0, 0x20FF, 0},
        {0x2E80, 0x303E, 2},  // CJK, kana, Hangul, and their signs
        {0x3041, 0xA4CF, 2},
        {0xA960, 0xA97C, 2},
        {0xAC00, 0xD7A3, 2},
        {0xF900, 0xFAFF, 2},
        {0xFE00, 0xFE0F, 0},  // variants of the character before
        {0xFE30, 0xFE6F, 2},
        {0xFF00, 0xFF60, 2},  // as wide as CJK
        {0xFFE0, 0xFFE6, 2},
        {0x1F300, 0x1F64F, 2},  // pictures
        {0x1F680, 0x1F6FF, 2},
        {0x1F900, 0x1FAFF, 2},
        {0x20000, 0x3FFFD, 2},
    });
    const auto* const found = std::ranges::find_if(
        kOthers, [&](const Columns& one) { return point >= one.first && point <= one.last; });
    return found == kOthers.end() ? 1 : found->each;
}

/// Where a line goes on that is broken: below its second cell if it has two and that one's first
/// word fits there, else behind its own indent.
std::size_t indent_of(std::string_view line, std::size_t width) {
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t gap = line.find("  ", first);
    const std::size_t second = line.find_first_not_of(' ', gap);
    const bool has_two = gap != std::string_view::npos && second != std::string_view::npos &&
                         line.find("  ", second) == std::string_view::npos;
    const bool fits = columns_of(line.substr(0, line.find(' ', second))) <= width;
    return has_two && fits && 2 * second <= width ? second : first + 2;
}

/// Whether a cell of the line is a command. Prose begins with the program's name, too, but at the
/// line's.
bool has_command(std::string_view line) {
    return line.find("  shardweld ") != line.npos || line.find("  mpirun ") != line.npos;
}

std::string fitted_line(std::string_view line, std::size_t width) {
    if (columns_of(line) <= width) {
        return std::string(line);
    }
    const std::size_t indent = indent_of(line, width);
    const bool is_typed = has_command(line);
    const std::size_t most = width - std::min(width, std::size_t{is_typed ? 2U : 0U});
    std::string text;
    std::size_t column = 0;
    while (!line.empty()) {
        const std::size_t word = std::min(line.find_first_not_of(' '), line.size());
        const std::size_t end = std::min(line.find(' ', word), line.size());
        const std::size_t columns = columns_of(line.substr(0, end));
        if (column > indent && column + columns > most) {
            text += (is_typed ? " \\\n" : "\n") + std::string(indent, ' ');
            column = indent;
            line.remove_prefix(word);
        } else {
            text += line.substr(0, end);
            column += columns;
            line.remove_prefix(end);
        }
    }
    return text;
}

double share_of(double part, double all) {
    return all > 0 ? std::clamp(part / all, 0.0, 1.0) : 0;
}

}  // namespace

std::string table(const std::vector<Align>& aligns, const Cells& rows) {
    return table(aligns, rows.size(), [&](std::size_t i) { return rows[i]; });
}

std::string table(const std::vector<Align>& aligns, std::size_t n_rows,
                  const std::function<std::vector<std::string>(std::size_t)>& row_at) {
    std::vector<std::size_t> widths(aligns.size(), 0);
    for (std::size_t i = 0; i < n_rows; ++i) {
        const auto row = row_at(i);
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            widths[c] = std::max(widths[c], columns_of(row[c]));
        }
    }
    std::string text;
    for (std::size_t i = 0; i < n_rows; ++i) {
        const auto row = row_at(i);
        std::string line;
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            const std::string blanks(widths[c] - columns_of(row[c]), ' ');
            line += c == 0 ? "" : "  ";
            line += aligns[c] == Align::left ? row[c] + blanks : blanks + row[c];
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::size_t columns_of(std::string_view text) {
    std::size_t columns = 0;
    while (!text.empty()) {
        columns += columns_of_one(take_character(text).point);
    }
    return columns;
}

std::string fitted(std::string_view text, std::size_t width) {
    return joined(split(text, '\n'), "\n",
                  [&](std::string_view line) { return fitted_line(line, width); });
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
    std::string result;
    std::string line;
    for (const std::string_view word : split(text, ' ')) {
        if (!line.empty() && indent + columns_of(line) + 1 + columns_of(word) > width) {
            result += line + "\n" + std::string(indent, ' ');
            line.clear();
        }
        line += (line.empty() ? "" : " ") + std::string(word);
    }
    return result + line + "\n";
}

std::string human_count(Index count) {
    static constexpr const char* kUnits[] = {"", " k", " M", " B", " T"};
    return in_thousands(static_cast<double>(count), kUnits);
}

std::string duration_text(double seconds) {
    constexpr double kMinute = 60;
    constexpr double kHour = 3600;
    if (seconds >= 2 * kHour) {
        return formatted("%.1f h", seconds / kHour);
    }
    if (seconds >= 2 * kMinute) {
        return formatted("%.1f min", seconds / kMinute);
    }
    return formatted("%.*f s", seconds >= 9.95 ? 0 : seconds >= 0.995 ? 1 : 2, seconds);
}

std::string percent_text(double part, double all) {
    return formatted("%.1f %%", 100 * share_of(part, all));
}

std::string bar(double part, double all, std::size_t widest) {
    const double length = std::round(share_of(part, all) * static_cast<double>(widest));
    return std::string(std::max(as_size(length), std::size_t{part > 0 ? 1U : 0U}), '#');
}

}  // namespace shardweld::app

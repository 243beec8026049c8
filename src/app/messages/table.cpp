#include "table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

std::string with_digits(const char* format, double value, const char* unit) {
    std::array<char, 48> text{};
    (void)std::snprintf(text.data(), text.size(), format, value, unit);
    return text.data();
}

double share_of(double part, double all) {
    return all > 0 ? std::clamp(part / all, 0.0, 1.0) : 0;
}

}  // namespace

std::string table(const std::vector<Align>& aligns,
                  const std::vector<std::vector<std::string>>& rows) {
    return table(aligns, rows.size(), [&](std::size_t i) { return rows[i]; });
}

std::string table(const std::vector<Align>& aligns, std::size_t n_rows,
                  const std::function<std::vector<std::string>(std::size_t)>& row_at) {
    std::vector<std::size_t> widths(aligns.size(), 0);
    for (std::size_t i = 0; i < n_rows; ++i) {
        const auto row = row_at(i);
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            widths[c] = std::max(widths[c], row[c].size());
        }
    }
    std::string text;
    for (std::size_t i = 0; i < n_rows; ++i) {
        const auto row = row_at(i);
        std::string line;
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            const std::string blanks(widths[c] - row[c].size(), ' ');
            line += c == 0 ? "" : "  ";
            line += aligns[c] == Align::left ? row[c] + blanks : blanks + row[c];
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
    std::string result;
    std::string line;
    for (const std::string_view word : split(text, ' ')) {
        if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
            result += line + "\n" + std::string(indent, ' ');
            line.clear();
        }
        line += (line.empty() ? "" : " ") + std::string(word);
    }
    return result + line + "\n";
}

std::string human_count(Index count) {
    constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " B", " T"};
    auto value = static_cast<double>(count);
    std::size_t unit = 0;
    while (value >= 999.5 && unit + 1 < kUnits.size()) {
        value /= 1000;
        ++unit;
    }
    const char* format = unit == 0 || value >= 99.95 ? "%.0f%s"
                         : value >= 9.995            ? "%.1f%s"
                                                     : "%.2f%s";
    return with_digits(format, value, kUnits[unit]);
}

std::string duration_text(double seconds) {
    constexpr double kMinute = 60;
    constexpr double kHour = 3600;
    if (seconds >= 2 * kHour) {
        return with_digits("%.1f %s", seconds / kHour, "h");
    }
    if (seconds >= 2 * kMinute) {
        return with_digits("%.1f %s", seconds / kMinute, "min");
    }
    return with_digits(seconds >= 9.95    ? "%.0f %s"
                       : seconds >= 0.995 ? "%.1f %s"
                                          : "%.2f %s",
                       seconds, "s");
}

std::string percent_text(double part, double all) {
    return with_digits("%.1f %s", 100 * share_of(part, all), "%");
}

std::string bar(double part, double all, std::size_t widest) {
    const double length = std::round(share_of(part, all) * static_cast<double>(widest));
    return std::string(std::max(static_cast<std::size_t>(length), std::size_t{part > 0 ? 1U : 0U}),
                       '#');
}

}  // namespace shardweld::app

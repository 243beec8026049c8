#include "shown_numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

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

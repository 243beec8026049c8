#include "option_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr Index kMostNumber = std::numeric_limits<int>::max();

}  // namespace

void refuse(const std::string& message, const std::string& hint) {
    throw Error(ErrorCode::usage, message, hint);
}
void refuse(const Given& given, const std::string& why, const std::string& hint) {
    refuse("--" + std::string(given.name) + " " + printable(given.text) + " " + why, hint);
}

Bytes size_in(const Given& given) {
    const auto bytes = parse_size(given.text);
    if (!bytes || *bytes == 0) {
        refuse(given, "is not a size", "give for example 5GB, 512MiB or a number of bytes");
    }
    return *bytes;
}

Index number_in(const Given& given, Index least) {
    const auto number = parse_index(given.text);
    if (!number || *number < least || *number > kMostNumber) {
        refuse(given, "is not a number in its range",
               "give one from " + std::to_string(least) + " to " + std::to_string(kMostNumber));
    }
    return *number;
}

double real_in(const Given& given) {
    double number = 0;
    const char* const end = given.text.data() + given.text.size();
    const auto [at, error] = std::from_chars(given.text.data(), end, number);
    if (error != std::errc() || at != end || !std::isfinite(number) || number < 0) {
        refuse(given, "is not a number", "give one such as 16 or 1e-6");
    }
    return number;
}

double duration_in(const Given& given) {
    constexpr std::array<std::pair<char, double>, 4> kUnits = {
        {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
    double number = 0;
    const char* const end = given.text.data() + given.text.size();
    const auto [rest, error] =
        std::from_chars(given.text.data(), end, number, std::chars_format::fixed);
    const char* const at = rest;
    const auto* unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& known) {
        return end - at == 1 && *at == known.first;
    });
    const bool is_whole = at == end || unit != kUnits.end();
    if (error != std::errc() || !is_whole || !std::isfinite(number) || number < 0) {
        refuse(given, "is not a time", "give for example 90s, 5m or 2h");
    }
    return number * (at == end ? 1 : unit->second);
}

double moment_in(const Given& given) {
    if (given.text.starts_with('+')) {
        return static_cast<double>(std::time(nullptr)) +
               duration_in({given.name, given.text.substr(1)});
    }
    if (const auto seconds = parse_index(given.text)) {
        return static_cast<double>(*seconds);
    }
    for (const char* const form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"}) {
        std::tm time{};
        const char* const end = ::strptime(given.text.c_str(), form, &time);
        if (end != nullptr && *end == '\0') {
            time.tm_isdst = -1;
            return static_cast<double>(std::mktime(&time));
        }
    }
    refuse(given, "is no point in time",
           "give for example +50m, 2026-11-22T03:10 or seconds since 1970");
}

std::vector<double> reals_in(const Given& given) {
    std::vector<double> numbers;
    for (const std::string_view text : split(given.text, ',')) {
        double number = 0;
        const char* const end = text.data() + text.size();
        const auto [at, error] = std::from_chars(text.data(), end, number);
        if (error != std::errc() || at != end || !std::isfinite(static_cast<float>(number))) {
            refuse(given, "is no list of numbers", "give for example 0.2,0.8");
        }
        numbers.push_back(number);
    }
    return numbers;
}

std::vector<std::string> names_in(const Given& given) {
    const auto names = split(given.text, ',');
    return {names.begin(), names.end()};
}

}  // namespace shardweld::app

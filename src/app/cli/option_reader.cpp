#include "option_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "shardweld/core/error.hpp"

namespace shardweld::app {

namespace {

constexpr Index kMostNumber = std::numeric_limits<int>::max();

}  // namespace

void refuse(const std::string& message) {
    throw Error(ErrorCode::usage, message);
}

std::optional<std::string> OptionReader::text(const std::string& name) const {
    const auto found = arguments_.values.find(name);
    return found == arguments_.values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Bytes> OptionReader::size(const std::string& name) const {
    const auto value = text(name);
    const auto bytes = value ? parse_size(*value) : std::nullopt;
    if (value && (!bytes || *bytes == 0)) {
        refuse("--" + name + " " + printable(*value) +
               " is not a size: give for example 5GB, 512MiB or a number of bytes");
    }
    return bytes;
}

std::optional<Index> OptionReader::number(const std::string& name, Index least) const {
    const auto value = text(name);
    const auto number = value ? parse_index(*value) : std::nullopt;
    if (value && (!number || *number < least || *number > kMostNumber)) {
        refuse("--" + name + " " + printable(*value) + " is not a number from " +
               std::to_string(least) + " to " + std::to_string(kMostNumber));
    }
    return number;
}

std::optional<double> OptionReader::real(const std::string& name) const {
    const auto value = text(name);
    if (!value) {
        return std::nullopt;
    }
    double number = 0;
    const char* const end = value->data() + value->size();
    const auto [at, error] = std::from_chars(value->data(), end, number);
    if (error != std::errc() || at != end || !std::isfinite(number) || number < 0) {
        refuse("--" + name + " " + printable(*value) + " is not a number such as 16 or 1e-6");
    }
    return number;
}

std::optional<double> OptionReader::duration(const std::string& name) const {
    constexpr std::array<std::pair<char, double>, 4> kUnits = {
        {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
    const auto value = text(name);
    if (!value) {
        return std::nullopt;
    }
    double number = 0;
    const char* const end = value->data() + value->size();
    const auto [rest, error] =
        std::from_chars(value->data(), end, number, std::chars_format::fixed);
    const char* const at = rest;
    const auto* unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& known) {
        return end - at == 1 && *at == known.first;
    });
    const bool is_whole = at == end || unit != kUnits.end();
    if (error != std::errc() || !is_whole || !std::isfinite(number) || number < 0) {
        refuse("--" + name + " " + printable(*value) +
               " is not a time: give for example 90s, 5m or 2h");
    }
    return number * (at == end ? 1 : unit->second);
}

}  // namespace shardweld::app

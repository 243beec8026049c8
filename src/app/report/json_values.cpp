#include "json_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardweld::app {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestText = 4000;
constexpr std::size_t kMostShown = 200;

}  // namespace

const Json& member(const Json& object, const char* name) {
    static const Json nothing;
    const auto at = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && at != object.end() ? *at : nothing;
}

std::vector<const Json*> elements(const Json& list, std::size_t most) {
    std::vector<const Json*> found;
    for (std::size_t i = 0; list.is_array() && i < std::min(list.size(), most); ++i) {
        found.push_back(&list[i]);
    }
    return found;
}

std::string text_in(const Json& value) {
    std::string text = value.is_string()                         ? value.get<std::string>()
                       : value.is_number() || value.is_boolean() ? value.dump()
                                                                 : "";
    if (text.size() <= kLongestText) {
        return text;
    }
    std::size_t end = kLongestText;
    while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        --end;  // not in the middle of a letter
    }
    return text.substr(0, end) + " ...";
}

Bytes bytes_in(const Json& value) {
    return value.is_number_unsigned() ? value.get<Bytes>() : 0;
}

Index index_in(const Json& value) {
    return value.is_number_integer() && !value.is_number_unsigned() ? value.get<Index>()
           : value.is_number_unsigned() && value.get<Bytes>() <= std::numeric_limits<Index>::max()
               ? static_cast<Index>(value.get<Bytes>())
               : 0;
}

double seconds_in(const Json& value) {
    constexpr double kYear = 366 * 86400.0;
    const double seconds = value.is_number() ? value.get<double>() : 0;
    return std::isfinite(seconds) ? std::clamp(seconds, 0.0, kYear) : 0;
}

Bytes saturating_sum(Bytes a, Bytes b) {
    return a > std::numeric_limits<Bytes>::max() - b ? std::numeric_limits<Bytes>::max() : a + b;
}

std::string line_of(const Json& value) {
    if (!value.is_structured()) {
        return text_in(value);
    }
    std::string text;
    std::size_t left = kMostShown;
    for (const auto& [name, inner] : value.items()) {
        if (left-- == 0) {
            return text + ", ...";
        }
        const std::string one = inner.is_structured() ? "..." : text_in(inner);
        text += (text.empty() ? "" : ", ") + (value.is_object() ? name + " " : "") + one;
    }
    return text;
}

}  // namespace shardweld::app

#include "field_value.hpp"

#include <charconv>

namespace shardweld::models {

FieldValue claim_value(const std::string& text) {
    if (text == "true" || text == "false") {
        return Index{text == "true" ? 1 : 0};
    }
    Index whole = 0;
    double real = 0;
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    if (const auto [rest, status] = std::from_chars(begin, end, whole);
        status == std::errc() && rest == end) {
        return whole;
    }
    if (const auto [rest, status] = std::from_chars(begin, end, real);
        status == std::errc() && rest == end) {
        return integral(real);
    }
    return text;
}

FieldValue integral(double value) {
    // Exactly the doubles below 2^63 in size fit; beyond 2^53 they are whole anyway.
    constexpr double kLimit = 9223372036854775808.0;
    if (value >= -kLimit && value < kLimit &&
        static_cast<double>(static_cast<Index>(value)) == value) {
        return static_cast<Index>(value);
    }
    return value;
}

}  // namespace shardweld::models

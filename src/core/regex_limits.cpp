#include "shardweld/core/regex_limits.hpp"

#include <algorithm>

namespace shardweld {

bool has_long_number(std::string_view expression) {
    const auto is_digit = [](char c, int /*unused*/) { return c >= '0' && c <= '9'; };
    return std::search_n(expression.begin(), expression.end(), kTooManyDigits, 0, is_digit) !=
           expression.end();
}

}  // namespace shardweld

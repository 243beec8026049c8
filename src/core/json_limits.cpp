#include "shardweld/core/json_limits.hpp"

#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/core/json.hpp"

#include "outside_strings.hpp"

namespace shardweld {

namespace {

// An object of 30 000 fields, e.g. the names of as many classes.
constexpr Bytes kMostComparisons = 500'000'000;

}  // namespace

std::optional<std::size_t> too_deep_at(std::string_view text) {
    std::size_t depth = 0;
    return find_outside_strings(text, [&](std::size_t /*at*/, char c) {
        const bool is_end = (c == '}' || c == ']') && depth > 0;
        depth += c == '{' || c == '[' ? 1U : 0U;
        depth -= is_end ? 1U : 0U;
        return depth > kDeepestJson;
    });
}

std::optional<std::size_t> too_wide_at(std::string_view text) {
    std::vector<Bytes> fields;  // so far, of each object or list that is open
    Bytes n_comparisons = 0;
    return find_outside_strings(text, [&](std::size_t /*at*/, char c) {
        if (c == '{' || c == '[') {
            fields.push_back(0);
        } else if ((c == '}' || c == ']') && !fields.empty()) {
            fields.pop_back();
        } else if (c == ':' && !fields.empty()) {
            n_comparisons += ++fields.back();
        }
        return n_comparisons > kMostComparisons;
    });
}

std::optional<JsonFault> fault_of_size(std::string_view text, bool keeps_order) {
    if (const auto at = too_deep_at(text)) {
        return JsonFault{JsonFault::Kind::deep, *at, ""};
    }
    const auto at = keeps_order ? too_wide_at(text) : std::nullopt;
    return at ? std::optional(JsonFault{JsonFault::Kind::wide, *at, ""}) : std::nullopt;
}

}  // namespace shardweld

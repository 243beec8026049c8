#include "hub_names.hpp"

#include <algorithm>

#include "models/pattern.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

// The limit for all lines together, whatever their conditions: more than ten times what 61 layers
// of 384 experts have. A config.json that promises more would be counted through for minutes.
constexpr Index kMostNames = 2'000'000;

/// The ranges of a line's captures.
std::vector<Index> ranges_of(const models::Line& line, const models::Symbols& symbols) {
    return collect_list(line.name.captures,
                        [&](const std::string& capture) { return symbols.value(capture); });
}

/// How many names a line stands for, whatever its condition.
Index n_names_of(const models::Line& line, const std::vector<Index>& ranges) {
    Index n = 1;
    for (const Index range : ranges) {
        n = checked_mul(n, std::max<Index>(range, 0), line.name.text);
    }
    return n;
}

/// The name of that number, of which the last capture counts first.
HubName name_at(const models::Line& line, Index number, const std::vector<Index>& ranges,
                const models::Symbols& symbols) {
    models::Captures captures;
    for (std::size_t i = ranges.size(); i-- > 0; number /= ranges[i]) {
        captures[line.name.captures[i]] = number % ranges[i];
    }
    const auto value_of = [&](const std::string& symbol) { return symbols.value(symbol); };
    return {&line, models::captures_for_condition(line.name, captures, value_of),
            models::format(line.name, captures, value_of)};
}

/// Error(mismatch) when all lines promise too much.
void require_few_names(const models::Recipe& recipe, const models::Symbols& symbols) {
    Index n_names = 0;
    for (const models::Line& line : recipe.hub) {
        const Index n_of_line = n_names_of(line, ranges_of(line, symbols));
        n_names = checked_add(n_names, n_of_line, line.name.text);
        if (n_names > kMostNames) {
            throw Error(ErrorCode::mismatch,
                        "config.json promises " + std::to_string(n_names) + " tensors up to " +
                            line.name.text + ", at most " + std::to_string(kMostNames) +
                            " are expected",
                        "correct config.json: no model has so many layers or experts")
                .set_detail(line.origin);
        }
    }
}

}  // namespace

void for_each_hub_name(const models::Recipe& recipe, const models::Symbols& symbols,
                       const std::function<bool(const HubName&)>& use) {
    require_few_names(recipe, symbols);
    for (const models::Line& line : recipe.hub) {
        const std::vector<Index> ranges = ranges_of(line, symbols);
        const Index n_names = n_names_of(line, ranges);
        for (Index number = 0; number < n_names; ++number) {
            const HubName hub = name_at(line, number, ranges, symbols);
            if (symbols.holds(line.condition, hub.captures) && !use(hub)) {
                return;
            }
        }
    }
}

}  // namespace shardweld::plan

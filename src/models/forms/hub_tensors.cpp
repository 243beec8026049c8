#include "hub_tensors.hpp"

#include "models/pattern.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

namespace {

constexpr std::size_t kMostTensors = 1'000'000;

/// Adds a line's tensors for all values of its captures from the i-th on; `n_met` counts those,
/// too, that a condition leaves out.
void add_from(const Line& line, const Symbols& symbols, std::size_t i, Captures captures,
              std::size_t& n_met, std::vector<HubTensor>& made) {
    const SymbolValue value = [&](const std::string& name) { return symbols.value(name); };
    if (++n_met > kMostTensors) {
        throw Error(ErrorCode::mismatch, "config.json promises more than a million tensors",
                    "correct config.json: no model has so many layers or experts");
    }
    if (i < line.name.captures.size()) {
        const std::string& capture = line.name.captures[i];
        const Index extent = symbols.value(capture);
        for (Index at = 0; at < extent; ++at) {
            captures[capture] = at;
            add_from(line, symbols, i + 1, captures, n_met, made);
        }
        return;
    }
    const Captures seen = captures_for_condition(line.name, captures, value);
    if (!symbols.holds(line.condition, seen)) {
        return;
    }
    const auto bound = layout::BoundLayout::bind(
        line.layout, [&](const std::string& axis) { return symbols.value(axis, seen); });
    made.push_back({format(line.name, captures, value), bound.shape(), &line});
}

}  // namespace

std::vector<HubTensor> hub_tensors(const Recipe& recipe, const Symbols& symbols) {
    std::vector<HubTensor> made;
    std::size_t n_met = 0;
    for (const Line& line : recipe.hub) {
        add_from(line, symbols, 0, {}, n_met, made);
    }
    return made;
}

}  // namespace shardweld::models

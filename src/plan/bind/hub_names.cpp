#include "hub_names.hpp"

#include <algorithm>

#include "models/pattern.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

// The limit for all lines together, whatever their conditions: more than ten times what 61 layers
// of 384 experts have. A config.json that promises more would be counted through for minutes.
constexpr Index kMostNames = 2'000'000;

/// All index values of a line's captures, counted up from the last one.
class IndexCounter {
  public:
    explicit IndexCounter(std::vector<Index> extents)
        : extents_(std::move(extents)), at_(extents_.size(), 0) {
        for (const Index extent : extents_) {
            is_done_ = is_done_ || extent <= 0;
        }
    }
    [[nodiscard]] bool is_done() const { return is_done_; }
    [[nodiscard]] const std::vector<Index>& at() const { return at_; }
    void advance() {
        for (std::size_t i = at_.size(); i-- > 0;) {
            if (++at_[i] < extents_[i]) {
                return;
            }
            at_[i] = 0;
        }
        is_done_ = true;
    }

  private:
    std::vector<Index> extents_;
    std::vector<Index> at_;
    bool is_done_ = false;
};

HubName name_at(const models::Line& line, const std::vector<Index>& values,
                const models::Symbols& symbols) {
    models::Captures captures;
    for (const std::size_t i : indices(values)) {
        captures[line.name.captures[i]] = values[i];
    }
    const auto value_of = [&](const std::string& symbol) { return symbols.value(symbol); };
    return {&line, models::captures_for_condition(line.name, captures, value_of),
            models::format(line.name, captures, value_of)};
}

struct Counted {
    const models::Line* line = nullptr;
    std::vector<Index> extents;
};

/// All lines with the extents of their captures. Error(mismatch) when they promise too much.
std::vector<Counted> counted_lines(const models::Recipe& recipe, const models::Symbols& symbols) {
    std::vector<Counted> lines;
    Index n_names = 0;
    for (const models::Line& line : recipe.hub) {
        Counted counted{&line, {}};
        Index n_of_line = 1;
        for (const std::string& capture : line.name.captures) {
            counted.extents.push_back(symbols.value(capture));
            n_of_line =
                checked_mul(n_of_line, std::max<Index>(counted.extents.back(), 0), line.name.text);
        }
        n_names = checked_add(n_names, n_of_line, line.name.text);
        if (n_names > kMostNames) {
            throw Error(ErrorCode::mismatch,
                        "config.json promises " + std::to_string(n_names) + " tensors up to " +
                            line.name.text + ", at most " + std::to_string(kMostNames) +
                            " are expected",
                        "correct config.json: no model has so many layers or experts")
                .set_detail(line.origin);
        }
        lines.push_back(std::move(counted));
    }
    return lines;
}

}  // namespace

void for_each_hub_name(const models::Recipe& recipe, const models::Symbols& symbols,
                       const std::function<bool(const HubName&)>& use) {
    for (Counted& line : counted_lines(recipe, symbols)) {
        for (IndexCounter counter(std::move(line.extents)); !counter.is_done(); counter.advance()) {
            const HubName hub = name_at(*line.line, counter.at(), symbols);
            if (symbols.holds(line.line->condition, hub.captures) && !use(hub)) {
                return;
            }
        }
    }
}

}  // namespace shardweld::plan

#include "hub_names.hpp"

#include <algorithm>

#include "shardweld/core/error.hpp"
#include "shardweld/models/pattern.hpp"

namespace shardweld::plan {

namespace {

// Far above any model's layers times experts; keeps a hostile config.json from counting for ever.
constexpr Index kMostNames = 10'000'000;

/// All index values of a line's captures, counted up from the last one.
class Counter {
  public:
    explicit Counter(std::vector<Index> extents)
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
    for (std::size_t i = 0; i < values.size(); ++i) {
        captures[line.name.captures[i]] = values[i];
    }
    const auto value_of = [&](const std::string& symbol) { return symbols.value(symbol); };
    return {&line, models::captures_for_condition(line.name, captures, value_of),
            models::format(line.name, captures, value_of)};
}

}  // namespace

void for_each_hub_name(const models::Recipe& recipe, const models::Symbols& symbols,
                       const std::function<void(const HubName&)>& use) {
    for (const models::Line& line : recipe.hub) {
        std::vector<Index> extents;
        Index n_names = 1;
        for (const std::string& capture : line.name.captures) {
            extents.push_back(symbols.value(capture));
            n_names = checked_mul(n_names, std::max<Index>(extents.back(), 0), line.name.text);
        }
        if (n_names > kMostNames) {
            throw Error(ErrorCode::mismatch, "config.json promises " + std::to_string(n_names) +
                                                 " tensors " + line.name.text +
                                                 ": no model has so many layers or experts");
        }
        for (Counter counter(std::move(extents)); !counter.is_done(); counter.advance()) {
            const HubName hub = name_at(line, counter.at(), symbols);
            if (symbols.holds(line.condition, hub.captures)) {
                use(hub);
            }
        }
    }
}

}  // namespace shardweld::plan

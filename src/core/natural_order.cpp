#include "natural_order.hpp"

#include <algorithm>
#include <unordered_map>

#include "text.hpp"

namespace shardweld {

namespace {

using Places = std::vector<std::size_t>;

constexpr char kBehindFront = ':';

/// Fronts compare as the names do because none has another ':' that one could end at; names of
/// which some have no front have none at all.
std::unordered_map<std::string_view, Places> by_front(const std::vector<std::string_view>& names) {
    const bool have_fronts = std::ranges::all_of(names, [](std::string_view name) {
        return name.find(kBehindFront) != std::string_view::npos;
    });
    std::unordered_map<std::string_view, Places> places;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::size_t size = have_fronts ? names[i].find(kBehindFront) + 1 : 0;
        places[names[i].substr(0, size)].push_back(i);
    }
    return places;
}

/// The first so many fronts in natural order are alike: they differ in leading zeros at most, and
/// the names behind them are mixed.
std::size_t n_alike(const std::vector<std::string_view>& fronts, std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < fronts.size() && natural_compare(fronts[begin], fronts[end]) == 0) {
        ++end;
    }
    return end - begin;
}

}  // namespace

std::vector<std::size_t> natural_order(const std::vector<std::string_view>& names) {
    const auto of_front = by_front(names);
    std::vector<std::string_view> fronts;
    for (const auto& [front, places] : of_front) {
        fronts.push_back(front);
    }
    std::ranges::sort(fronts, natural_less);
    Places order;
    order.reserve(names.size());
    for (std::size_t at = 0; at < fronts.size();) {
        const auto begin = static_cast<std::ptrdiff_t>(order.size());
        const std::size_t n = n_alike(fronts, at);
        const std::size_t skipped = n == 1 ? fronts[at].size() : 0;
        for (const std::size_t end = at + n; at < end; ++at) {
            const Places& places = of_front.at(fronts[at]);
            order.insert(order.end(), places.begin(), places.end());
        }
        std::sort(order.begin() + begin, order.end(), [&](std::size_t a, std::size_t b) {
            return natural_less(names[a].substr(skipped), names[b].substr(skipped));
        });
    }
    return order;
}

}  // namespace shardweld

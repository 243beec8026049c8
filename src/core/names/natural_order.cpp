#include "natural_order.hpp"

#include <algorithm>
#include <unordered_map>

#include "core/text.hpp"

namespace shardweld {

namespace {

using Names = std::vector<std::string_view>;
using Places = std::vector<std::size_t>;

constexpr char kBehindFront = ':';

/// Bytes of each name's front. Fronts compare as the names do because none has another ':' that one
/// could end at; names of which some have no front have none at all.
std::vector<std::size_t> front_sizes(const Names& names) {
    std::vector<std::size_t> sizes;
    sizes.reserve(names.size());
    for (const std::string_view name : names) {
        sizes.push_back(name.find(kBehindFront) + 1);  // npos + 1 is 0
    }
    if (contains(sizes, 0U)) {
        std::ranges::fill(sizes, 0U);
    }
    return sizes;
}

std::unordered_map<std::string_view, Places> by_front(const Names& names,
                                                      const std::vector<std::size_t>& sizes) {
    std::unordered_map<std::string_view, Places> places;
    for (const std::size_t i : indices(names)) {
        places[names[i].substr(0, sizes[i])].push_back(i);
    }
    return places;
}

/// Where each name stands by what is behind its front. Files by the thousand have tensors of the
/// same names, which are compared once.
std::vector<std::size_t> ranks_of_rests(const Names& names, const std::vector<std::size_t>& sizes) {
    std::unordered_map<std::string_view, std::size_t> ranks;
    std::vector<const std::size_t*> of_names;  // which stay where they are
    of_names.reserve(names.size());
    for (const std::size_t i : indices(names)) {
        of_names.push_back(&ranks.try_emplace(names[i].substr(sizes[i]), 0).first->second);
    }
    Names rests;
    rests.reserve(ranks.size());
    for (const auto& [rest, rank] : ranks) {
        rests.push_back(rest);
    }
    std::ranges::sort(rests, natural_less);
    for (const std::size_t i : indices(rests)) {
        ranks[rests[i]] = i;
    }
    return collect_list(of_names, [](const std::size_t* rank) { return *rank; });
}

/// The first so many fronts in natural order are alike: they differ in leading zeros at most, and
/// the names behind them are mixed.
std::size_t n_alike(const Names& fronts, std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < fronts.size() && natural_compare(fronts[begin], fronts[end]) == 0) {
        ++end;
    }
    return end - begin;
}

}  // namespace

std::vector<std::size_t> natural_order(const Names& names) {
    const std::vector<std::size_t> sizes = front_sizes(names);
    const std::vector<std::size_t> ranks = ranks_of_rests(names, sizes);
    const auto of_front = by_front(names, sizes);
    Names fronts;
    for (const auto& [front, places] : of_front) {
        fronts.push_back(front);
    }
    std::ranges::sort(fronts, natural_less);
    Places order;
    order.reserve(names.size());
    for (std::size_t at = 0; at < fronts.size();) {
        const auto begin = static_cast<std::ptrdiff_t>(order.size());
        const std::size_t n = n_alike(fronts, at);
        for (const std::size_t end = at + n; at < end; ++at) {
            const Places& places = of_front.at(fronts[at]);
            append_all(order, places);
        }
        std::sort(order.begin() + begin, order.end(), [&](std::size_t a, std::size_t b) {
            return n == 1 ? ranks[a] < ranks[b] : natural_less(names[a], names[b]);
        });
    }
    return order;
}

}  // namespace shardweld

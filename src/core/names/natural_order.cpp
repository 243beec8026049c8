#include "natural_order.hpp"

#include <algorithm>
#include <unordered_map>

#include "core/text.hpp"

namespace shardweld {

namespace {

using Names = std::vector<SharedName>;
using Places = std::vector<std::size_t>;

/// Whether fronts compare as the names do: there are none, or each ends in a character that none
/// has elsewhere, so that no front could be a longer one's beginning.
bool compare_by_front(const Names& names) {
    return std::ranges::all_of(names, [&](const SharedName& name) {
        const std::string_view front = name.front;
        const std::string_view first = names.front().front;
        return first.empty() ? front.empty()
                             : !front.empty() && front.find(first.back()) == front.size() - 1;
    });
}

/// Where each name stands by its rest. Files by the thousand have tensors of the same names, which
/// are compared once.
std::vector<std::size_t> ranks_of_rests(const Names& names) {
    std::unordered_map<std::string_view, std::size_t> ranks;
    std::vector<const std::size_t*> of_names;  // which stay where they are
    of_names.reserve(names.size());
    for (const SharedName& name : names) {
        of_names.push_back(&ranks.try_emplace(name.rest, 0).first->second);
    }
    std::vector<std::string_view> rests;
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
std::size_t n_alike(const std::vector<std::string_view>& fronts, std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < fronts.size() && natural_compare(fronts[begin], fronts[end]) == 0) {
        ++end;
    }
    return end - begin;
}

}  // namespace

std::vector<std::size_t> natural_order(const Names& names) {
    if (!compare_by_front(names)) {
        return natural_order(collect_list<SharedName>(names, &SharedName::text));
    }
    const std::vector<std::size_t> ranks = ranks_of_rests(names);
    std::unordered_map<std::string_view, Places> of_front;
    for (const std::size_t i : indices(names)) {
        of_front[names[i].front].push_back(i);
    }
    auto fronts = collect_list(of_front, [](const auto& one) { return one.first; });
    std::ranges::sort(fronts, natural_less);
    Places order;
    order.reserve(names.size());
    for (std::size_t at = 0; at < fronts.size();) {
        const auto begin = static_cast<std::ptrdiff_t>(order.size());
        const std::size_t n = n_alike(fronts, at);
        for (const std::size_t end = at + n; at < end; ++at) {
            append_all(order, std::as_const(of_front.at(fronts[at])));
        }
        std::stable_sort(order.begin() + begin, order.end(), [&](std::size_t a, std::size_t b) {
            return n == 1 ? ranks[a] < ranks[b] : natural_less(names[a].text(), names[b].text());
        });
    }
    return order;
}

}  // namespace shardweld

// What is made of each item of a list.
#pragma once

#include <functional>
#include <iterator>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardweld {

/// `Value`, or without one what a function, or a member, gives of a list's items.
template <typename Value, typename List, typename Part>
using PartOf = std::conditional_t<
    std::is_void_v<Value>,
    std::decay_t<std::invoke_result_t<const Part&, decltype(*std::begin(std::declval<List&>()))>>,
    Value>;

inline constexpr auto kEachIsMeant = [](const auto& /*item*/) { return true; };

/// `part` of each item of which `is_meant` is true, in the items' order.
template <typename Value = void, typename List, typename Part,
          typename Test = decltype(kEachIsMeant)>
auto collect_list(List&& list, const Part& part, const Test& is_meant = kEachIsMeant) {
    std::vector<PartOf<Value, List, Part>> parts;
    if constexpr (std::is_same_v<Test, decltype(kEachIsMeant)> && requires { list.size(); }) {
        parts.reserve(list.size());
    }
    for (auto&& item : list) {
        if (std::invoke(is_meant, item)) {
            parts.emplace_back(std::invoke(part, item));
        }
    }
    return parts;
}

/// `part` of each item of which `is_meant` is true, without repetitions.
template <typename Value = void, typename List, typename Part,
          typename Test = decltype(kEachIsMeant)>
auto collect_set(List&& list, const Part& part, const Test& is_meant = kEachIsMeant) {
    std::set<PartOf<Value, List, Part>> parts;
    for (auto&& item : list) {
        if (std::invoke(is_meant, item)) {
            parts.emplace(std::invoke(part, item));
        }
    }
    return parts;
}

/// The sum of `part` of all items; 0, or "", where there are none.
template <typename List, typename Part>
auto add_up(List&& list, const Part& part) {
    PartOf<void, List, Part> sum{};
    for (auto&& item : list) {
        sum += std::invoke(part, item);
    }
    return sum;
}

}  // namespace shardweld

// What is made of each item of a list, and what a list holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
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

/// The items of which `is_meant` is true, in their order.
template <typename List, typename Test>
auto filter_list(const List& list, const Test& is_meant) {
    return collect_list(list, std::identity(), is_meant);
}

/// What an optional value holds; null: nothing.
template <typename Optional>
auto* pointer_to(Optional& value) {
    return value ? &*value : nullptr;
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

/// What `make` gives of the numbers from `at` to before `n`, to go through.
template <typename Make = std::identity>
struct IndexRun {
    std::size_t at = 0;
    std::size_t n = 0;
    Make make = {};

    [[nodiscard]] IndexRun begin() const { return *this; }
    [[nodiscard]] IndexRun end() const { return {n, n, make}; }
    decltype(auto) operator*() const { return make(at); }
    IndexRun& operator++() {
        ++at;
        return *this;
    }
    bool operator!=(const IndexRun& other) const { return at != other.at; }
};

/// The places of a list's items.
template <typename List>
IndexRun<> indices(const List& list) {
    return {0, std::size(list)};
}

/// Whether `part` of an item of a list is `value`.
template <typename List, typename Value, typename Part = std::identity>
bool contains(const List& list, const Value& value, Part part = {}) {
    return std::ranges::find(list, value, std::move(part)) != std::ranges::end(list);
}

/// The first item of a list, which outlives it, of which `part` is `value`; nullptr: none is.
template <typename List, typename Value, typename Part = std::identity>
auto* find_item(List& list, const Value& value, Part part = {}) {
    const auto at = std::ranges::find(list, value, std::move(part));
    return at == std::ranges::end(list) ? nullptr : &*at;
}

/// The first item of a list, which outlives it, of which `is_it` is true; nullptr: of none.
template <typename List, typename Test>
auto* find_where(List& list, const Test& is_it) {
    const auto at = std::ranges::find_if(list, is_it);
    return at == std::ranges::end(list) ? nullptr : &*at;
}

/// What a map, which outlives it, has under a key; nullptr: nothing.
template <typename Map, typename Key = typename Map::key_type>
auto* find_value(Map& map, const Key& key) {
    const auto at = map.find(key);
    return at == map.end() ? nullptr : &at->second;
}

/// What was found, as a value; nullopt: nothing.
template <typename Item>
std::optional<std::remove_const_t<Item>> copy_of(Item* found) {
    return found == nullptr ? std::nullopt : std::optional(*found);
}

/// What was found, as a value, or `otherwise`.
template <typename Item>
std::remove_const_t<Item> copy_or(Item* found,
                                  std::type_identity_t<std::remove_const_t<Item>> otherwise) {
    return found == nullptr ? std::move(otherwise) : *found;
}

/// Puts the items of another list, which are moved where it is given up, behind those of `list`.
template <typename List, typename More>
void append_all(List& list, More&& more) {
    if constexpr (std::is_lvalue_reference_v<More>) {
        list.insert(list.end(), std::begin(more), std::end(more));
    } else {
        list.insert(list.end(), std::make_move_iterator(std::begin(more)),
                    std::make_move_iterator(std::end(more)));
    }
}

}  // namespace shardweld

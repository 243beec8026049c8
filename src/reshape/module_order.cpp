#include "module_order.hpp"

#include <algorithm>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"

namespace shardweld::reshape {

namespace {

/// The place of a name among words.
std::size_t place_in(std::string_view words, std::string_view name) {
    std::size_t place = 0;
    for (std::size_t at = 0; at < words.size(); ++place) {
        const std::size_t end = std::min(words.find(' ', at), words.size());
        if (words.substr(at, end - at) == name) {
            break;
        }
        at = end + 1;
    }
    return place;
}

std::string_view take_component(std::string_view& name) {
    const std::size_t dot = name.find('.');
    const std::string_view first = name.substr(0, dot);
    name.remove_prefix(dot == std::string_view::npos ? name.size() : dot + 1);
    return first;
}

}  // namespace

bool ModuleOrder::is_known() const {
    return is_known_as(family_, "family whose modules are in order");
}

std::string_view ModuleOrder::children_of(std::string_view module) const {
    const NameRule* of_all = nullptr;
    for (const NameRule& rule : name_rules().children) {
        if (std::ranges::count(rule.patterns, module.empty() ? "." : module) > 0) {
            if (rule.format == family_) {
                return rule.what;
            }
            of_all = rule.format.empty() ? &rule : of_all;
        }
    }
    return of_all == nullptr ? std::string_view() : of_all->what;
}

bool ModuleOrder::operator()(std::string_view a, std::string_view b) const {
    std::string_view module;
    while (!a.empty() && !b.empty()) {
        const std::string_view first = take_component(a);
        const std::string_view second = take_component(b);
        if (first != second) {
            const std::string_view order = children_of(module);
            const std::size_t i = place_in(order, first);
            const std::size_t j = place_in(order, second);
            return i == j ? natural_less(first, second) : i < j;
        }
        module = parse_index(first) ? module : first;
    }
    return a.empty() && !b.empty();
}

}  // namespace shardweld::reshape

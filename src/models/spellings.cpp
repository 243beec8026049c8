#include "spellings.hpp"

#include <algorithm>
#include <iterator>

#include "core/text.hpp"

namespace shardweld::models {

Spellings::Spellings(const Recipe& recipe) : recipe_(recipe) {
    for (const Line& line : recipe.module) {
        auto* const hub = find_where(recipe.hub, [&](const Line& one) {
            return one.logical == line.logical && one.name.captures == line.name.captures;
        });
        if (hub == nullptr) {
            continue;
        }
        const auto a = split(hub->name.text, '.');
        const auto b = split(line.name.text, '.');
        const auto [first, second] = std::ranges::mismatch(a, b);
        if (a.size() == b.size() && first != a.begin() && first != a.end() &&
            std::next(first) != a.end() && first->find('{') == std::string_view::npos &&
            std::equal(std::next(first), a.end(), std::next(second))) {
            components_.emplace(std::string(*first), std::string(*second));
        }
    }
}

std::vector<std::string> Spellings::others(const std::string& name) const {
    std::vector<std::string> names{name};
    const auto add = [&](const std::string& of, const std::string& from, const std::string& to) {
        if (of.starts_with(from)) {
            names.push_back(to + of.substr(from.size()));
        }
    };
    for (const auto& [one, other] : components_) {
        for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
            const std::size_t at = name.find("." + from + ".");
            if (at != std::string::npos) {
                names.push_back(std::string(name).replace(at + 1, from.size(), to));
            }
        }
    }
    for (const RenameRule& rule : recipe_.eithers) {
        add(name, rule.from, rule.to);
        add(name, rule.to, rule.from);
    }
    const std::vector<std::string> of_hub = names;
    for (const std::string& one : of_hub) {
        for (const RenameRule& rule : recipe_.renames) {
            if (rule.dialect.empty()) {
                add(one, rule.to, rule.from);
            }
        }
    }
    names.erase(names.begin());
    return names;
}

}  // namespace shardweld::models

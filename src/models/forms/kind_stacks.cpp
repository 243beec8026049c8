#include "kind_stacks.hpp"

#include <algorithm>
#include <memory>

#include "core/text.hpp"
#include "models/expr.hpp"

namespace shardweld::models {

namespace {

/// The line's own name, or that of its twin with a number, begins as the alias says.
bool has_name_of(const AliasRule& rule, const Line& line) {
    const std::string number = "{" + rule.stacked + "}.";
    return !rule.stacked.empty() &&
           (line.name.text.starts_with(rule.to.text) ||
            line.name.text.starts_with(replaced(rule.to.text, number, "")));
}

}  // namespace

bool is_by_kind(const Line& line, const Dialect& form) {
    return std::ranges::any_of(form.aliases,
                               [&](const AliasRule& rule) { return has_name_of(rule, line); });
}

std::vector<Line> by_kind(const Line& line, const Dialect& form,
                          const std::set<std::string>& stacks) {
    std::vector<Line> lines;
    for (const AliasRule& rule : form.aliases) {
        if (!has_name_of(rule, line)) {
            continue;
        }
        const std::string rest = line.name.text.substr(rule.to.text.size());
        Line one = line;
        one.name = Pattern::parse(rule.from.text + rest);
        one.condition = conjunction_of(line.condition, rule.condition);
        one.stack = "";
        if (stacks.contains(rule.stacked)) {
            one.kind_stack = std::make_shared<const KindStack>(
                KindStack{Pattern::parse(rule.stack.text + rest), rule.stacked, rule.condition});
        }
        lines.push_back(std::move(one));
    }
    return lines;
}

std::pair<Index, Index> place_in_stack(const Line& line, Captures captures,
                                       const Symbols& symbols) {
    const KindStack& stack = *line.kind_stack;
    Captures others = captures;
    others.erase(stack.capture);  // alone it stands for the number of all layers
    const Index layers = symbols.value(stack.capture, others);
    const Index own = captures.at(stack.capture);
    std::pair<Index, Index> place;
    for (Index layer = 0; layer < layers; ++layer) {
        captures[stack.capture] = layer;
        if (symbols.holds(stack.condition, captures)) {
            place.first += layer < own ? 1 : 0;
            ++place.second;
        }
    }
    return place;
}

}  // namespace shardweld::models

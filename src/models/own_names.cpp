// Checkpoints whose stored names are the recipe's own: the dialect made from the recipe.

#include <algorithm>
#include <set>

#include "expr.hpp"
#include "recipe.hpp"

namespace shardweld::models {

namespace {

/// A copy that must equal another tensor is stored although it is not written.
ExprPtr stored_when(const Line& line, const Recipe& recipe) {
    ExprPtr condition = line.condition;
    for (const SameRule& rule : recipe.same) {
        if (rule.a != line.logical || condition == nullptr) {
            continue;
        }
        condition = rule.condition == nullptr
                        ? nullptr
                        : as_root(make_expr(Op::either, {condition, rule.condition}),
                                  condition->text + " or " + rule.condition->text, line.origin);
    }
    return condition;
}

Line stored_form(const Line& line, const Recipe& recipe) {
    Line stored = line;
    stored.condition = stored_when(line, recipe);
    stored.add = 0;
    stored.join = Join{};
    stored.join->by_shape = true;
    return stored;
}

}  // namespace

const RenameRule* longest_match(const std::vector<RenameRule>& rules, std::string_view name) {
    const RenameRule* best = nullptr;
    for (const RenameRule& rule : rules) {
        if (name.starts_with(rule.from) &&
            (best == nullptr || best->from.size() <= rule.from.size())) {
            best = &rule;
        }
    }
    return best;
}

Dialect own_names(const Recipe& recipe, const Dialect& dialect) {
    Dialect own = dialect;
    if (!dialect.has_own_names) {
        return own;
    }
    std::set<std::string> names;
    for (const Line& line : recipe.module) {
        names.insert(line.name.text);
        own.store.push_back(stored_form(line, recipe));
    }
    for (const Line& line : recipe.hub) {
        if (!names.contains(line.name.text)) {
            own.store.push_back(stored_form(line, recipe));
        }
    }
    return own;
}

}  // namespace shardweld::models

#include "training_form.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "models/expr.hpp"
#include "models/name_changes.hpp"
#include "shardweld/error.hpp"

#include "hub_tensors.hpp"
#include "kind_stacks.hpp"
#include "made_up.hpp"

namespace shardweld::models {

namespace {

constexpr const char* kApart = "apart";

/// The condition where a capture has this number; below 0: where it is an axis, not a capture.
ExprPtr rebound(const ExprPtr& condition, const std::string& capture, Index value) {
    if (condition == nullptr) {
        return nullptr;
    }
    Expr expr = *make_expr(Op::rebound, {condition});
    expr.name = capture;
    expr.number = value;
    return as_root(std::make_shared<const Expr>(std::move(expr)), condition->text,
                   condition->origin);
}

bool is_number(const ExprPtr& expr, bool is_true) {
    return expr != nullptr && expr->op == Op::number && (expr->number != 0) == is_true;
}

/// Holds where either condition holds. Null always holds.
ExprPtr disjunction_of(const ExprPtr& a, const ExprPtr& b) {
    if (a == nullptr || b == nullptr || a->text == b->text) {
        return a == nullptr ? a : b;
    }
    return as_root(make_expr(Op::either, {a, b}), "(" + a->text + ") or (" + b->text + ")",
                   b->origin);
}

/// The hub lines of a recipe by logical tensor.
using Hub = std::map<std::string, std::vector<const Line*>>;

Hub hub_of(const Recipe& recipe) {
    Hub hub;
    for (const Line& line : recipe.hub) {
        hub[line.logical].push_back(&line);
    }
    return hub;
}

/// What a model of the family has of a logical tensor: lines of the hub.
using Held = std::vector<const Line*>;

Held held_in(const Hub& hub, const std::string& logical) {
    return copy_or(find_value(hub, logical), Held());
}

/// Only the lines of its segments with these labels.
Held held_in(const Hub& hub, const std::string& logical, const std::vector<std::string>& labels) {
    return filter_list(held_in(hub, logical), [&](const Line* line) {
        const auto own = labels_of(*line);
        return std::ranges::find_first_of(own, labels) != own.end();
    });
}

/// Whether the model has tensors of the same layers, or whatever else stands before the dot.
bool has_siblings(const Hub& hub, const std::string& logical) {
    const std::string prefix = logical.substr(0, logical.rfind('.') + 1);
    const auto found = hub.lower_bound(prefix);
    return found != hub.end() && found->first.starts_with(prefix);
}

/// A hub name without a number has it as an axis, and its condition sees how many there are.
ExprPtr condition_seen(const Line& line, const Pattern& name) {
    ExprPtr condition = line.condition;
    for (const std::string& capture : name.captures) {
        if (!contains(line.name.captures, capture)) {
            condition = rebound(condition, capture, -1);
        }
    }
    return condition;
}

/// When the model has it, for a line with this name; null: always.
ExprPtr condition_for(const Held& held, const Pattern& name) {
    if (held.empty()) {
        return nullptr;
    }
    ExprPtr any = condition_seen(*held.front(), name);
    for (const Line* const line : held) {
        any = disjunction_of(any, condition_seen(*line, name));
    }
    return any;
}

/// Works out of conditions what is known without config.json: how names are chosen, what the recipe
/// says of the family, which logical tensors it has.
class ConditionFolder {
  public:
    ConditionFolder(const Recipe& recipe, const Dialect& form, const Hub& hub)
        : recipe_(recipe), form_(form), hub_(hub) {}

    /// A number where it is known. The condition is the line's.
    [[nodiscard]] ExprPtr folded(const ExprPtr& expr, const Line& line) const {
        switch (expr->op) {
            case Op::name:
                return named(expr);
            case Op::has_logical:
                return has(expr, line);
            case Op::not_true: {
                const ExprPtr inner = folded(expr->args[0], line);
                return inner->op == Op::number ? number(Index{inner->number == 0})
                                               : make_expr(Op::not_true, {inner});
            }
            case Op::rebound: {
                const ExprPtr inner = folded(expr->args[0], line);
                return inner->op == Op::number ? inner : rebound(inner, expr->name, expr->number);
            }
            case Op::both:
            case Op::either:
                return logic(expr, line);
            default:
                return expr;
        }
    }

  private:
    [[nodiscard]] ExprPtr named(const ExprPtr& expr) const {
        auto* const own = find_value(recipe_.symbols, expr->name);
        auto* const other = find_value(form_.defaults, expr->name);
        const bool is_own = own != nullptr;
        if (!is_own && other == nullptr) {
            return expr;
        }
        const Definition& definition = is_own ? *own : *other;
        const bool is_number =
            definition.alternatives.size() == 1 && definition.alternatives[0]->op == Op::number &&
            !contains(form_.facts, expr->name) && !contains(recipe_.givens, expr->name);
        return is_number ? definition.alternatives[0] : expr;
    }

    [[nodiscard]] ExprPtr has(const ExprPtr& expr, const Line& line) const {
        const std::string& logical = line.logical;
        const Held held = held_in(hub_, logical.substr(0, logical.rfind('.') + 1) + expr->name);
        if (held.empty()) {
            return number(0);
        }
        const ExprPtr condition = condition_for(held, line.name);
        return condition == nullptr ? number(1) : folded(condition, line);
    }

    [[nodiscard]] ExprPtr logic(const ExprPtr& expr, const Line& line) const {
        const bool is_either = expr->op == Op::either;
        const ExprPtr left = folded(expr->args[0], line);
        if (left->op == Op::number && (left->number != 0) == is_either) {
            return number(Index{is_either});
        }
        ExprPtr right = folded(expr->args[1], line);
        if (left->op == Op::number) {
            return right;
        }
        if (right->op == Op::number) {
            return (right->number != 0) == is_either ? number(Index{is_either}) : left;
        }
        return make_expr(expr->op, {left, right});
    }

    const Recipe& recipe_;
    const Dialect& form_;
    const Hub& hub_;
};

ExprPtr negation_of(const ExprPtr& expr) {
    return as_root(make_expr(Op::not_true, {expr}), "not (" + expr->text + ")", expr->origin);
}

/// Which of a dialect's lines are written, and when.
class Choice {
  public:
    Choice(const Dialect& form, const TrainingNames& names) : form_(form), names_(names) {
        for (const Line& line : form.store) {
            lines_.emplace(line.name.text, &line);
        }
    }

    /// nullopt: never. The condition is null where it always is. Layers are not in one tensor where
    /// they are stacked by kind.
    [[nodiscard]] std::optional<ExprPtr> when(const Line& line, bool is_kind) const {
        if (names_.lines) {
            return names_.lines->contains(&line) ? std::optional(ExprPtr()) : std::nullopt;
        }
        const bool is_stacked =
            !is_kind && !line.stack.empty() && names_.stacks.contains(line.stack);
        if (line.is_read_only || line.is_stacked != is_stacked) {
            return std::nullopt;
        }
        const auto [inner, condition] = placed(line);
        return chosen(inner, condition);
    }

  private:
    /// The line without a prefix that may stand in front of it, and when it has it or not.
    [[nodiscard]] std::pair<const Line&, ExprPtr> placed(const Line& line) const {
        const std::string& name = line.name.text;
        for (const NamesRule& rule : form_.insides) {
            const std::string& prefix = rule.names[0];
            const auto inner =
                name.starts_with(prefix) ? lines_.find(name.substr(prefix.size())) : lines_.end();
            if (inner != lines_.end()) {
                return {*inner->second, rule.condition};
            }
            if (lines_.contains(prefix + name)) {
                return {line, negation_of(rule.condition)};
            }
        }
        return {line, nullptr};
    }

    [[nodiscard]] std::optional<ExprPtr> chosen(const Line& line, ExprPtr condition) const {
        std::vector<std::string> firsts = line.firsts;
        for (const NamesRule& rule : form_.written_names) {
            auto* const glob = find_where(rule.names, [&](const std::string& one) {
                return glob_matches(one, line.name.text);
            });
            if (glob != nullptr) {
                condition = conjunction_of(condition, rule.condition);
                // A rule about the name and not about the first one chooses between them.
                std::erase_if(
                    firsts, [&](const std::string& first) { return !glob_matches(*glob, first); });
            }
        }
        const bool is_never = std::ranges::any_of(
            form_.unwritten_names,
            [&](const NamesRule& rule) { return any_glob_matches(rule.names, line.name.text); });
        return is_never || !firsts.empty() ? std::nullopt : std::optional(condition);
    }

    const Dialect& form_;
    const TrainingNames& names_;
    std::map<std::string, const Line*> lines_;
};

/// What conditions of the line see as l, where the hub's names count on from the layers.
std::optional<Pattern::Layer> layer_of(const Line& line, const Held& held) {
    for (const Line* const hub : held) {
        for (const std::size_t i : indices(hub->name.captures)) {
            if (!hub->name.plus[i].empty() && contains(line.name.captures, hub->name.captures[i])) {
                return Pattern::Layer{hub->name.captures[i], hub->name.plus[i]};
            }
        }
    }
    return std::nullopt;
}

/// What the hub lines say of the tensor and the framework's line does not.
void take_options(Line& line, const Held& held) {
    for (const Line* const hub : held) {
        line.optional = line.optional || hub->optional;
        line.together = line.together || hub->together;
        line.keep = line.keep ? line.keep : hub->keep;
        line.add = hub->add == 0 ? line.add : -hub->add;
    }
    line.name.layer = layer_of(line, held);
}

Definition flag(bool value) {
    return {{number(Index{value})}, "the choice of names", false};
}

/// The name with which the framework begins otherwise.
Pattern renamed_back(const Pattern& pattern, const Recipe& recipe, std::string_view dialect) {
    const std::string text = renamed_back_by(recipe.renames, pattern.text, dialect);
    if (text == pattern.text) {
        return pattern;
    }
    Pattern renamed = Pattern::parse(text);
    renamed.layer = pattern.layer;
    return renamed;
}

/// Whether it is of a tower whose form in module trees is another one than in files.
bool is_of_tower(const Line& line) {
    return line.condition != nullptr && line.condition->op == Op::name &&
           line.condition->name == kTowers;
}

/// Whether the hub's own line is written for the logical tensor.
bool is_kept(const Line& line, const Dialect& form, const ConditionFolder& folding) {
    const bool is_tower =
        is_of_tower(line) && is_number(folding.folded(line.condition, line), true);
    return is_tower || std::ranges::any_of(form.kepts, [&](const NamesRule& rule) {
               return is_number(folding.folded(rule.condition, line), true) &&
                      any_glob_matches(rule.names, line.logical);
           });
}

/// Each segment of the hub's lines must be in a line that is written.
void require_written(const Recipe& recipe, const Recipe& made, const Dialect& form) {
    const Hub written = hub_of(made);
    const Hub hub = hub_of(recipe);
    const ConditionFolder folding(recipe, form, hub);
    for (const Line& line : recipe.hub) {
        if (line.condition != nullptr && is_number(folding.folded(line.condition, line), false)) {
            continue;
        }
        for (const std::string& label : labels_of(line)) {
            if (held_in(written, line.logical, {label}).empty()) {
                throw Error(ErrorCode::unsupported,
                            "a " + recipe.name + " model cannot be written with the names of " +
                                form.name + ": none is known for " + line.logical +
                                (label.empty() ? "" : "[" + label + "]"),
                            "write it in a format with the model's own names, or give a recipe "
                            "with --recipe")
                    .set_detail(line.origin);
            }
        }
    }
}

Recipe empty_form(const Recipe& recipe, const TrainingNames& names) {
    Recipe made = recipe;
    made.hub.clear();
    made.module.clear();
    made.is_form = true;
    made.symbols["te_names"] = flag(names.is_te);
    made.symbols["torch_dist"] = flag(names.is_torch_dist);
    made.symbols["grouped"] = flag(names.are_experts_grouped);
    made.symbols["newest"] = flag(names.is_newest);
    return made;
}

/// The line of a tied tensor's copy, which module trees have beside the tensor itself; nullopt
/// where the hub's line is of none.
std::optional<Line> copy_of(const Line& line, const Recipe& recipe) {
    auto* const same = find_item(recipe.same, line.logical, &SameRule::a);
    if (same == nullptr || line.condition == nullptr || same->condition == nullptr) {
        return std::nullopt;
    }
    Line copy = line;
    copy.logical = same->b;
    copy.condition = same->condition;
    for (const std::string& given : recipe.givens) {
        copy.condition = conjunction_of(copy.condition,
                                        negation_of(as_root(name_of(given), given, line.origin)));
    }
    return copy;
}

/// The lines of the module tree: a hub line stands where no `module` line has its segments.
Recipe module_form(const Recipe& recipe, const TrainingNames& names) {
    Recipe made = empty_form(recipe, names);
    std::set<std::pair<std::string, std::string>> taken;
    std::vector<Line> lines = recipe.module;
    std::erase_if(lines, &Line::is_read_only);
    for (const Line& line : lines) {
        for (const std::string& label : labels_of(line)) {
            taken.emplace(line.logical, label);
        }
    }
    for (const Line& line : recipe.hub) {
        const auto labels = labels_of(line);
        if (std::ranges::none_of(labels, [&](const std::string& label) {
                return taken.contains({line.logical, label});
            })) {
            lines.push_back(line);
        }
    }
    for (Line& line : lines) {
        line.join = Join{};
        line.join->by_shape = true;
        line.name = renamed_back(line.name, recipe, "");
        if (auto copy = copy_of(line, recipe)) {
            made.hub.push_back(*std::move(copy));
        }
        made.hub.push_back(std::move(line));
    }
    return made;
}

/// When a line that is chosen on a condition is written: null: always; nullopt: never.
std::optional<ExprPtr> written_condition(const Line& line, const std::optional<ExprPtr>& chosen,
                                         const Held& held, const ConditionFolder& folding) {
    if (!chosen) {
        return std::nullopt;
    }
    const ExprPtr condition =
        conjunction_of(conjunction_of(line.condition, *chosen), condition_for(held, line.name));
    if (condition == nullptr) {
        return condition;
    }
    const ExprPtr folded = folding.folded(condition, line);
    if (is_number(folded, false)) {
        return std::nullopt;
    }
    return is_number(folded, true) ? nullptr : as_root(folded, condition->text, condition->origin);
}

}  // namespace

Recipe training_form(const Recipe& recipe, const Dialect& form, const TrainingNames& names) {
    if (form.has_own_names) {
        return module_form(recipe, names);
    }
    Recipe made = empty_form(recipe, names);
    const Hub hub = hub_of(recipe);
    const Choice choice(form, names);
    const ConditionFolder folding(made, form, hub);
    const bool has_kinds = names.is_torch_dist && !names.lines &&
                           is_number(folding.folded(name_of(kApart), Line{}), true);
    for (const Line& line : form.store) {
        const Held held = held_in(hub, line.logical, labels_of(line));
        const bool is_kind = has_kinds && is_by_kind(line, form);
        const bool is_own = held.empty() ? is_filled(line) && has_siblings(hub, line.logical)
                                         : !is_kept(*held.front(), form, folding);
        const auto chosen = is_own ? choice.when(line, is_kind) : std::nullopt;
        const auto condition = written_condition(line, chosen, held, folding);
        if (!condition) {
            continue;
        }
        Line written = line;
        written.condition = line.is_stacked ? rebound(*condition, line.stack, 0) : *condition;
        take_options(written, held);
        write_twice(written, made);
        fill_up(written, names.lines ? std::optional(names.lines->at(&line)) : std::nullopt, made);
        for (Line& one : is_kind ? by_kind(written, form, names.stacks) : std::vector{written}) {
            one.name = renamed_back(one.name, recipe, form.name);
            made.hub.push_back(std::move(one));
        }
    }
    for (const Line& line : recipe.hub) {
        if (is_kept(line, form, folding)) {
            made.hub.push_back(line);
            made.hub.back().name = renamed_back(line.name, recipe, form.name);
        }
    }
    if (!names.lines) {
        require_written(recipe, made, form);
    }
    return made;
}

namespace {

/// Whether a layer's extents are those of the model: a stack has one of each for all layers.
bool has_common_extents(const HubTensor& tensor, const Symbols& symbols) {
    try {
        const auto bound = layout::BoundLayout::bind(
            tensor.line->layout, [&](const std::string& axis) { return symbols.value(axis); });
        return bound.shape() == tensor.shape;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

std::set<std::string> like_layers(const Recipe& training, const Dialect& form,
                                  const Symbols& symbols) {
    std::map<std::string, std::map<Index, std::set<const Line*>>> by;
    std::set<std::string> uncommon;
    for (const HubTensor& tensor : hub_tensors(training, symbols)) {
        const std::string& stack = tensor.line->stack;
        if (const auto captures =
                stack.empty() ? std::nullopt : tensor.line->name.match(tensor.name)) {
            by[stack][captures->at(stack)].insert(tensor.line);
            if (!has_common_extents(tensor, symbols)) {
                uncommon.insert(stack);
            }
        }
    }
    std::set<std::string> alike;
    for (const auto& [stack, layers] : by) {
        const bool is_separate =
            std::ranges::any_of(form.separates, [&, &stack = stack](const NamesRule& rule) {
                return rule.names[0] == stack && symbols.holds(rule.condition);
            });
        const bool are_alike =
            std::ssize(layers) == symbols.value(stack) &&
            std::ranges::all_of(layers, [&, &layers = layers](const auto& layer) {
                return layer.second == layers.begin()->second;
            });
        if (!is_separate && are_alike && !uncommon.contains(stack)) {
            alike.insert(stack);
        }
    }
    return alike;
}

std::vector<Line> tower_lines(const Recipe& recipe, const Dialect& dialect) {
    std::vector<Line> lines;
    for (const Line& line : recipe.hub) {
        if (is_of_tower(line)) {
            lines.push_back(line);
            lines.back().name = renamed_back(line.name, recipe, dialect.name);
        }
    }
    return lines;
}

std::string passing_name(const Recipe& training, const Dialect& form, const std::string& hub_name) {
    return renamed_back_by(training.renames, hub_name, form.has_own_names ? "" : form.name);
}

void require_reversible(const Recipe& training, const Symbols& symbols) {
    for (const HubTensor& tensor : hub_tensors(training, symbols)) {
        for (const std::string& label : tensor.line->drop) {
            if (label != "pad" && tensor.line->drop_as != "0") {
                throw Error(ErrorCode::unsupported,
                            "a " + training.name + " model cannot be written with these names: " +
                                tensor.name + " holds " + label +
                                ", which the framework computes and the model does not have")
                    .set_detail(tensor.line->origin);
            }
        }
    }
}

}  // namespace shardweld::models

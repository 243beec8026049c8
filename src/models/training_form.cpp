#include "training_form.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "expr.hpp"
#include "hub_tensors.hpp"
#include "pattern.hpp"

namespace shardweld::models {

namespace {

constexpr const char* kPad = "pad_";

ExprPtr number(Index value) {
    Expr expr;
    expr.number = value;
    expr.text = std::to_string(value);
    return std::make_shared<const Expr>(std::move(expr));
}

ExprPtr name_of(const std::string& name) {
    Expr expr;
    expr.op = Op::name;
    expr.name = name;
    return std::make_shared<const Expr>(std::move(expr));
}

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

/// Of two conditions either; null, which always holds, if one is.
ExprPtr disjunction_of(const ExprPtr& a, const ExprPtr& b) {
    if (a == nullptr || b == nullptr || a->text == b->text) {
        return a == nullptr ? a : b;
    }
    return as_root(make_expr(Op::either, {a, b}), "(" + a->text + ") or (" + b->text + ")",
                   b->origin);
}

/// What a model of the family has of a logical tensor.
struct Held {
    std::vector<const Line*> lines;  ///< of the hub

    [[nodiscard]] bool is_there() const { return !lines.empty(); }

    /// When it has it, for a line with this name; null: always.
    [[nodiscard]] ExprPtr condition(const Pattern& name) const {
        ExprPtr any = condition_of(*lines.front(), name);
        for (const Line* const line : lines) {
            any = disjunction_of(any, condition_of(*line, name));
        }
        return any;
    }

  private:
    /// A hub name without a number has it as an axis, and its condition sees how many there are.
    static ExprPtr condition_of(const Line& line, const Pattern& name) {
        ExprPtr condition = line.condition;
        for (const std::string& capture : name.captures) {
            if (std::ranges::count(line.name.captures, capture) == 0) {
                condition = rebound(condition, capture, -1);
            }
        }
        return condition;
    }
};

/// The hub lines of a recipe by logical tensor.
class Hub {
  public:
    explicit Hub(const Recipe& recipe) {
        for (const Line& line : recipe.hub) {
            lines_[line.logical].push_back(&line);
        }
    }

    [[nodiscard]] Held held(const std::string& logical) const {
        const auto found = lines_.find(logical);
        return found == lines_.end() ? Held{} : Held{found->second};
    }

    /// Of its segments with these labels.
    [[nodiscard]] Held held(const std::string& logical,
                            const std::vector<std::string>& labels) const {
        Held all = held(logical);
        std::erase_if(all.lines, [&](const Line* line) {
            const auto own = labels_of(*line);
            return std::ranges::find_first_of(own, labels) == own.end();
        });
        return all;
    }

  private:
    std::map<std::string, std::vector<const Line*>> lines_;
};

/// Works out of conditions what is known without config.json: how names are chosen, what the recipe
/// says of the family, which logical tensors it has.
class Folding {
  public:
    Folding(const Recipe& recipe, const Dialect& form, const Hub& hub)
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
        const auto own = recipe_.symbols.find(expr->name);
        const auto other = form_.defaults.find(expr->name);
        const bool is_own = own != recipe_.symbols.end();
        if (!is_own && other == form_.defaults.end()) {
            return expr;
        }
        const Definition& definition = is_own ? own->second : other->second;
        const bool is_number = definition.alternatives.size() == 1 &&
                               definition.alternatives[0]->op == Op::number &&
                               std::ranges::count(form_.facts, expr->name) == 0 &&
                               std::ranges::count(recipe_.givens, expr->name) == 0;
        return is_number ? definition.alternatives[0] : expr;
    }

    [[nodiscard]] ExprPtr has(const ExprPtr& expr, const Line& line) const {
        const std::string& logical = line.logical;
        const Held held = hub_.held(logical.substr(0, logical.rfind('.') + 1) + expr->name);
        if (!held.is_there()) {
            return number(0);
        }
        const ExprPtr condition = held.condition(line.name);
        return condition == nullptr ? number(1) : folded(condition, line);
    }

    [[nodiscard]] ExprPtr logic(const ExprPtr& expr, const Line& line) const {
        const bool is_either = expr->op == Op::either;
        const ExprPtr left = folded(expr->args[0], line);
        if (left->op == Op::number && (left->number != 0) == is_either) {
            return number(Index{is_either});
        }
        const ExprPtr right = folded(expr->args[1], line);
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

    /// nullopt: never. The condition is null where it always is.
    [[nodiscard]] std::optional<ExprPtr> when(const Line& line) const {
        const bool is_stacked = !line.stack.empty() && names_.stacks.contains(line.stack);
        if (line.is_read_only || line.is_stacked != is_stacked ||
            speaks_of(form_.unwritten_names, line)) {
            return std::nullopt;
        }
        ExprPtr condition;
        bool is_other = line.is_other_name;
        for (const WrittenRule& rule : form_.insides) {
            const std::string& prefix = rule.names[0];
            const std::string& name = line.name.text;
            const auto outer =
                name.starts_with(prefix) ? lines_.find(name.substr(prefix.size())) : lines_.end();
            if (outer != lines_.end()) {
                is_other = outer->second->is_other_name;
                condition = conjunction_of(condition, rule.condition);
            } else if (lines_.contains(prefix + name)) {
                condition = conjunction_of(condition, negation_of(rule.condition));
            }
        }
        bool is_named = false;
        for (const WrittenRule& rule : form_.written_names) {
            if (is_about(rule, line)) {
                is_named = true;
                condition = conjunction_of(condition, rule.condition);
            }
        }
        return is_other && !is_named ? std::nullopt : std::optional(condition);
    }

  private:
    static bool is_about(const WrittenRule& rule, const Line& line) {
        return std::ranges::any_of(rule.names, [&](const std::string& glob) {
            return glob_matches(glob, line.name.text);
        });
    }

    static bool speaks_of(const std::vector<WrittenRule>& rules, const Line& line) {
        return std::ranges::any_of(rules,
                                   [&](const WrittenRule& rule) { return is_about(rule, line); });
    }

    const Dialect& form_;
    const TrainingNames& names_;
    std::map<std::string, const Line*> lines_;
};

/// The name of the axis that stands for a padding's '*' beside these items; the symbol is added.
std::string padding_axis(const Line& line, const layout::Segment& model, Recipe& made) {
    std::string name = kPad;
    ExprPtr rows = number(1);
    for (const layout::LayoutItem& item : model.items) {
        name += item.name;
        rows = make_expr(Op::multiply, {rows, name_of(item.name)});
    }
    const ExprPtr unit = line.below == nullptr ? number(1) : line.below;
    const ExprPtr fill = make_expr(Op::remainder, {make_expr(Op::negate, {rows}), unit});
    Definition definition;
    definition.origin = line.origin;
    definition.alternatives = {
        as_root(fill, "-" + model.items[0].name + " % " + unit->text, line.origin)};
    made.symbols.emplace(name, std::move(definition));
    return name;
}

/// The layout with an extent of the framework's padding for '*'.
void fill_up(Line& line, Recipe& made) {
    for (layout::Dim& dim : line.layout.dims) {
        for (layout::LayoutItem& item : dim) {
            for (layout::Segment& segment : item.segments) {
                if (segment.items.size() == 1 && segment.items[0].name == "*") {
                    segment.items[0].name = padding_axis(line, item.segments.front(), made);
                }
            }
        }
    }
}

/// What conditions of the line see as l, where the hub's names count on from the layers.
std::optional<Pattern::Layer> layer_of(const Line& line, const Held& held) {
    for (const Line* const hub : held.lines) {
        for (std::size_t i = 0; i < hub->name.captures.size(); ++i) {
            if (!hub->name.plus[i].empty() &&
                std::ranges::count(line.name.captures, hub->name.captures[i]) > 0) {
                return Pattern::Layer{hub->name.captures[i], hub->name.plus[i]};
            }
        }
    }
    return std::nullopt;
}

/// What the hub lines say of the tensor and the framework's line does not.
void take_options(Line& line, const Held& held) {
    for (const Line* const hub : held.lines) {
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

/// The beginning of all names of such a model that no line of the form has: "thinker.".
std::string common_prefix(const Dialect& form, const Folding& folding) {
    std::string prefix;
    for (const WrittenRule& rule : form.insides) {
        const bool is_read = std::ranges::any_of(form.store, [&](const Line& line) {
            return line.name.text.starts_with(rule.names[0]);
        });
        if (!is_read && is_number(folding.folded(rule.condition, Line{}), true)) {
            prefix += rule.names[0];
        }
    }
    return prefix;
}

void refuse_unwritable(const Recipe& recipe, const Dialect& form, const Folding& folding) {
    for (const RefuseRule& rule : form.unwritables) {
        if (!is_number(folding.folded(rule.condition, Line{}), false)) {
            throw Error(ErrorCode::unsupported, "a " + recipe.name +
                                                    " model cannot be written with the names of " +
                                                    form.name + ": " + rule.reason)
                .set_detail(rule.origin);
        }
    }
}

/// Each segment of the hub's lines must be in a line that is written.
void require_written(const Recipe& recipe, const Recipe& made, const Dialect& form) {
    const Hub written(made);
    const Hub hub(recipe);
    const Folding folding(recipe, form, hub);
    for (const Line& line : recipe.hub) {
        if (line.condition != nullptr && is_number(folding.folded(line.condition, line), false)) {
            continue;
        }
        for (const std::string& label : labels_of(line)) {
            if (!written.held(line.logical, {label}).is_there()) {
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

/// The lines of the module tree: a hub line stands where no `module` line has its segments.
Recipe module_form(const Recipe& recipe, const Dialect& form, const TrainingNames& names) {
    Recipe made = empty_form(recipe, names);
    std::set<std::pair<std::string, std::string>> taken;
    for (const Line& line : own_names(recipe, form).store) {
        const auto labels = labels_of(line);
        const bool is_module = std::ranges::any_of(
            recipe.module, [&](const Line& own) { return own.name.text == line.name.text; });
        const bool is_taken = std::ranges::any_of(labels, [&](const std::string& label) {
            return taken.contains({line.logical, label});
        });
        if (is_module) {
            for (const std::string& label : labels) {
                taken.emplace(line.logical, label);
            }
        }
        if (is_module || !is_taken) {
            made.hub.push_back(line);
        }
    }
    return made;
}

}  // namespace

Recipe training_form(const Recipe& recipe, const Dialect& form, const TrainingNames& names) {
    if (form.has_own_names) {
        return module_form(recipe, form, names);
    }
    Recipe made = empty_form(recipe, names);
    const Hub hub(recipe);
    const Choice choice(form, names);
    const Folding folding(made, form, hub);
    refuse_unwritable(recipe, form, folding);
    const std::string prefix = common_prefix(form, folding);
    for (const Line& line : form.store) {
        const Held held = hub.held(line.logical, labels_of(line));
        const auto chosen = held.is_there() ? choice.when(line) : std::nullopt;
        if (!chosen) {
            continue;
        }
        ExprPtr condition =
            conjunction_of(conjunction_of(line.condition, *chosen), held.condition(line.name));
        if (condition != nullptr) {
            const ExprPtr folded = folding.folded(condition, line);
            if (is_number(folded, false)) {
                continue;
            }
            condition = is_number(folded, true)
                            ? nullptr
                            : as_root(folded, condition->text, condition->origin);
        }
        Line written = line;
        written.condition = line.is_stacked ? rebound(condition, line.stack, 0) : condition;
        take_options(written, held);
        fill_up(written, made);
        if (!prefix.empty()) {
            const auto layer = written.name.layer;
            written.name = Pattern::parse(prefix + written.name.text);
            written.name.layer = layer;
        }
        made.hub.push_back(std::move(written));
    }
    require_written(recipe, made, form);
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
            std::ranges::any_of(form.separates, [&, &stack = stack](const WrittenRule& rule) {
                return rule.names[0] == stack && symbols.holds(rule.condition);
            });
        const bool are_alike =
            static_cast<Index>(layers.size()) == symbols.value(stack) &&
            std::ranges::all_of(layers, [&, &layers = layers](const auto& layer) {
                return layer.second == layers.begin()->second;
            });
        if (!is_separate && are_alike && !uncommon.contains(stack)) {
            alike.insert(stack);
        }
    }
    return alike;
}

void require_reversible(const Recipe& training, const Symbols& symbols) {
    for (const HubTensor& tensor : hub_tensors(training, symbols)) {
        for (const std::string& label : tensor.line->drop) {
            if (label != "pad") {
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

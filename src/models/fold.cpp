// Folding: every part of an expression that is the same for all captures is worked out once.
#include <algorithm>
#include <utility>

#include "node.hpp"

namespace shardweld::models {

namespace {

constexpr std::size_t kDeepestDefinitions = 32;

NodePtr constant(Index value) {
    Node node;
    node.value = value;
    return std::make_shared<const Node>(std::move(node));
}

NodePtr broken(EvaluationFailure failure) {
    Node node;
    node.kind = Node::Kind::broken;
    node.failure = std::move(failure);
    return std::make_shared<const Node>(std::move(node));
}

NodePtr absent_node(const std::string& reason) {
    Node node;
    node.kind = Node::Kind::absent;
    node.text = reason;
    return std::make_shared<const Node>(std::move(node));
}

bool is_settled(const NodePtr& node) {
    return node->kind == Node::Kind::constant || node->kind == Node::Kind::absent ||
           node->kind == Node::Kind::broken;
}

/// The node as it is, or what it comes to when captures cannot change that any more.
NodePtr settled(Node node) {
    const bool is_constant = std::all_of(node.args.begin(), node.args.end(), is_settled);
    if (!is_constant) {
        return std::make_shared<const Node>(std::move(node));
    }
    try {
        std::string why;
        const auto value = evaluate(node, {}, &why);
        return value ? constant(*value) : absent_node(why);
    } catch (const EvaluationFailure& failure) {
        return broken(failure);
    }
}

NodePtr named(NodePtr inner, std::string label) {
    Node node;
    node.kind = Node::Kind::named;
    node.text = std::move(label);
    node.args = {std::move(inner)};
    return settled(std::move(node));
}

const Definition* find_in(const std::map<std::string, Definition>& list, const std::string& name) {
    const auto found = list.find(name);
    return found == list.end() ? nullptr : &found->second;
}

}  // namespace

std::string definition_text(const std::string& name, const Definition& definition) {
    std::string text = name + " =";
    for (std::size_t i = 0; i < definition.alternatives.size(); ++i) {
        text += (i == 0 ? " " : " else ") + definition.alternatives[i]->text;
    }
    return text;
}

std::set<std::string> names_bound_by_captures(const Recipe& recipe, const Dialect& dialect) {
    std::set<std::string> names;
    for (const auto& [name, definition] : recipe.indices) {
        names.insert(name);
    }
    for (const AliasRule& rule : dialect.aliases) {
        names.insert(rule.from.captures.begin(), rule.from.captures.end());
    }
    for (const auto* lines : {&dialect.store, &recipe.hub, &recipe.module}) {
        for (const Line& line : *lines) {
            names.insert(line.name.captures.begin(), line.name.captures.end());
        }
    }
    return names;
}

const NodePtr& Folder::symbol(const std::string& name) {
    const auto known = symbols_.find(name);
    if (known != symbols_.end()) {
        return known->second;
    }
    NodePtr node = make_symbol(name);
    if (scope_.captures.contains(name)) {
        Node capture;
        capture.kind = Node::Kind::capture;
        capture.text = name;
        capture.args = {std::move(node)};
        node = std::make_shared<const Node>(std::move(capture));
    }
    return symbols_.emplace(name, std::move(node)).first->second;
}

const NodePtr& Folder::expression(const ExprPtr& expr) {
    const auto known = expressions_.find(expr.get());
    if (known != expressions_.end()) {
        return known->second.node;
    }
    NodePtr node = named(fold(*expr), "'" + expr->text + "' (" + expr->origin + ")");
    return expressions_.emplace(expr.get(), Kept{expr, std::move(node)}).first->second.node;
}

const Definition* Folder::definition_of(const std::string& name) const {
    if (scope_.recipe != nullptr) {
        for (const auto* list :
             {&scope_.recipe->lets, &scope_.recipe->indices, &scope_.recipe->flags}) {
            if (const Definition* found = find_in(*list, name)) {
                return found;
            }
        }
    }
    return scope_.dialect == nullptr ? nullptr : find_in(scope_.dialect->defaults, name);
}

bool Folder::defines(const std::string& name) const {
    return scope_.known.contains(name) || scope_.unknown.contains(name) ||
           definition_of(name) != nullptr;
}

NodePtr Folder::make_symbol(const std::string& name) {
    if (const auto fact = scope_.known.find(name); fact != scope_.known.end()) {
        return constant(fact->second);
    }
    if (scope_.unknown.contains(name)) {
        return absent_node(name + " is not known yet");
    }
    const Definition* const definition = definition_of(name);
    if (definition == nullptr) {
        return absent_node(scope_.recipe == nullptr
                               ? "nothing defines '" + name + "'"
                               : "a " + scope_.recipe->name + " model has no '" + name + "'");
    }
    if (std::find(under_way_.begin(), under_way_.end(), name) != under_way_.end()) {
        return broken({ErrorCode::usage,
                       definition->origin + ": " + definition_text(name, *definition) +
                           " is defined by itself",
                       true});
    }
    if (under_way_.size() == kDeepestDefinitions) {
        return broken({ErrorCode::usage,
                       definition->origin + ": " + definition_text(name, *definition) +
                           " is based on more than 32 other definitions",
                       true});
    }
    under_way_.push_back(name);
    NodePtr node = define(name, *definition);
    under_way_.pop_back();
    return node;
}

NodePtr Folder::define(const std::string& name, const Definition& definition) {
    Node node;
    node.kind = Node::Kind::operation;
    node.op = Op::otherwise;
    for (const ExprPtr& alternative : definition.alternatives) {
        node.args.push_back(fold(*alternative));
        // Those behind a constant are never reached and may not even make sense.
        if (node.args.back()->kind == Node::Kind::constant) {
            break;
        }
    }
    return named(settled(std::move(node)), definition_text(name, definition));
}

NodePtr Folder::absent(const std::string& reason) const {
    return scope_.absent_is_zero ? constant(0) : absent_node(reason);
}

std::string Folder::config_name() const {
    return scope_.config ? scope_.config->origin() : "config.json";
}

NodePtr Folder::fold(const Expr& expr) {
    switch (expr.op) {
        case Op::number:
            return constant(expr.number);
        case Op::name:
            return symbol(expr.name);
        case Op::field:
            return fold_field(expr);
        case Op::count:
            return fold_count(expr);
        case Op::claim:
            return fold_claim(expr);
        case Op::known_field:
            return scope_.config ? constant(scope_.config->count(expr.name) ||
                                                    !std::holds_alternative<std::monostate>(
                                                        scope_.config->field(expr.name))
                                                ? 1
                                                : 0)
                                 : absent_node("config.json is not known yet");
        case Op::known_claim:
            return constant(scope_.claims != nullptr && scope_.claims->contains(expr.name) ? 1 : 0);
        case Op::element:
            return fold_element(expr);
        case Op::is_text:
        case Op::is_not_text:
            return fold_text(expr);
        case Op::has:
            return fold_has(expr);
        case Op::floor:
            return fold_floor(expr);
        default:
            return fold_operation(expr);
    }
}

NodePtr Folder::fold_floor(const Expr& expr) {
    NodePtr subject = fold_value(*expr.args[0]);
    if (subject->kind != Node::Kind::element) {
        return subject;
    }
    Node node = *subject;
    node.kind = Node::Kind::floor;
    node.steps = expr.steps;
    for (std::size_t i = 1; i < expr.args.size(); ++i) {
        node.args.push_back(fold(*expr.args[i]));
    }
    return settled(std::move(node));
}

NodePtr Folder::fold_operation(const Expr& expr) {
    Node node;
    node.kind = Node::Kind::operation;
    node.op = expr.op;
    for (const ExprPtr& arg : expr.args) {
        node.args.push_back(fold(*arg));
        const Node& last = *node.args.back();
        // `a and b` with a certain left side never looks at the right one.
        const bool is_decided = node.args.size() == 1 && last.kind == Node::Kind::constant &&
                                ((expr.op == Op::both && last.value == 0) ||
                                 (expr.op == Op::either && last.value != 0));
        if (is_decided) {
            return constant(expr.op == Op::either ? 1 : 0);
        }
    }
    return settled(std::move(node));
}

}  // namespace shardweld::models

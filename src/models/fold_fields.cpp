// Folding of what comes from config.json and from the checkpoint's claims.
#include <algorithm>
#include <utility>

#include "core/text.hpp"

#include "node.hpp"

namespace shardweld::models {

namespace {

NodePtr node_of(Node node) {
    return std::make_shared<const Node>(std::move(node));
}

NodePtr constant_node(Index value) {
    Node node;
    node.value = value;
    return node_of(std::move(node));
}

NodePtr integer(const FieldValue& value, const std::string& what) {
    Node node;
    try {
        node.value = as_integer(value, what).value_or(0);
    } catch (const EvaluationFailure& failure) {
        node.kind = Node::Kind::broken;
        node.failure = failure;
    }
    return node_of(std::move(node));
}

bool is_absent(const FieldValue& value) {
    return std::holds_alternative<std::monostate>(value);
}

std::shared_ptr<const std::vector<FieldValue>> list_of(const std::optional<Config>& config,
                                                       const std::string& path) {
    auto values = config ? config->list(path) : std::nullopt;
    return values ? std::make_shared<const std::vector<FieldValue>>(std::move(*values)) : nullptr;
}

/// The numbers of a list that is written as a text: "3,4,5".
std::vector<FieldValue> numbers_in(std::string_view text) {
    std::vector<FieldValue> numbers;
    for (const std::string_view part : split(text, ',')) {
        if (const auto number = parse_index(trim(part))) {
            numbers.emplace_back(*number);
        }
    }
    return numbers;
}

}  // namespace

NodePtr Folder::fold_field(const Expr& expr) const {
    const FieldValue value = scope_.config ? scope_.config->field(expr.name) : FieldValue();
    return is_absent(value) ? absent(config_name() + " has no " + expr.name)
                            : integer(value, config_name() + "'s " + expr.name);
}

NodePtr Folder::fold_count(const Expr& expr) const {
    const auto count = scope_.config ? scope_.config->count(expr.name) : std::nullopt;
    return count ? constant_node(*count) : absent(config_name() + " has no list " + expr.name);
}

NodePtr Folder::fold_claim(const Expr& expr) const {
    if (scope_.claims == nullptr) {
        return absent("the checkpoint states no " + expr.name);
    }
    if (!scope_.claims->contains(expr.name)) {
        return constant_node(0);
    }
    return integer(claim_value(scope_.claims->at(expr.name)), "the checkpoint's " + expr.name);
}

NodePtr Folder::fold_element(const Expr& expr) {
    Node node;
    node.list = list_of(scope_.config, expr.name);
    if (node.list == nullptr) {
        return absent(config_name() + " has no list " + expr.name);
    }
    node.kind = Node::Kind::element;
    node.text = config_name() + "'s " + expr.name;
    node.args = {fold(*expr.args[0])};
    return node_of(std::move(node));
}

/// A field as the only element of a list, whatever its kind.
NodePtr Folder::fold_value(const Expr& expr) {
    if (expr.op == Op::element) {
        return fold_element(expr);
    }
    FieldValue value = scope_.config ? scope_.config->field(expr.name) : FieldValue();
    if (is_absent(value)) {
        return absent(config_name() + " has no " + expr.name);
    }
    Node node;
    node.kind = Node::Kind::element;
    node.text = config_name() + "'s " + expr.name;
    node.list = std::make_shared<const std::vector<FieldValue>>(1, std::move(value));
    node.args = {constant_node(0)};
    return node_of(std::move(node));
}

NodePtr Folder::fold_text(const Expr& expr) {
    const Expr& subject = *expr.args[0];
    if (subject.op == Op::element) {
        NodePtr element = fold_element(subject);
        if (element->kind != Node::Kind::element) {
            return element;
        }
        Node node = *element;
        node.kind = Node::Kind::is_text;
        node.op = expr.op;
        node.texts = expr.texts;
        return node_of(std::move(node));
    }
    Node node;
    node.kind = Node::Kind::is_text;
    node.op = expr.op;
    node.texts = expr.texts;
    FieldValue value;
    if (subject.op == Op::field && scope_.config) {
        value = scope_.config->field(subject.name);
    } else if (subject.op == Op::claim && scope_.claims != nullptr) {
        const auto found = scope_.claims->find(subject.name);
        value = found == scope_.claims->end() ? FieldValue() : FieldValue(found->second);
    }
    if (is_absent(value)) {
        const bool counts_as_zero =
            scope_.absent_is_zero || (subject.op == Op::claim && scope_.claims != nullptr);
        return counts_as_zero ? constant_node(expr.op == Op::is_text ? 0 : 1)
                              : absent(config_name() + " has no " + subject.name);
    }
    node.list = std::make_shared<const std::vector<FieldValue>>(1, std::move(value));
    node.args = {constant_node(0)};
    std::string why;
    return constant_node(evaluate(node, {}, &why).value_or(0));
}

NodePtr Folder::fold_has(const Expr& expr) {
    const std::string& path = expr.args[0]->name;
    auto values = scope_.config ? scope_.config->list(path) : std::nullopt;
    if (const auto text = values ? scope_.config->text(path) : std::nullopt) {
        values = numbers_in(*text);
    }
    if (!values) {
        return absent(config_name() + " has no list " + path);
    }
    // Sorted once: it is looked through for every layer, and may be as long as there are layers.
    std::erase_if(*values,
                  [](const FieldValue& value) { return !std::holds_alternative<Index>(value); });
    std::sort(values->begin(), values->end());
    Node node;
    node.list = std::make_shared<const std::vector<FieldValue>>(std::move(*values));
    node.kind = Node::Kind::has;
    node.args = {fold(*expr.args[1])};
    return node_of(std::move(node));
}

}  // namespace shardweld::models

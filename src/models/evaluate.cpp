#include <algorithm>
#include <cmath>
#include <limits>

#include "node.hpp"

namespace shardweld::models {

namespace {

EvaluationFailure too_large(Index a, const char* mark, Index b) {
    return {ErrorCode::mismatch,
            std::to_string(a) + " " + mark + " " + std::to_string(b) + " is too large", false};
}

Index divided(Index a, Index b) {
    if (b == 0) {
        throw EvaluationFailure{ErrorCode::mismatch, std::to_string(a) + " / 0", false};
    }
    if (a == std::numeric_limits<Index>::min() && b == -1) {
        throw too_large(a, "/", b);
    }
    if (a % b != 0) {
        throw EvaluationFailure{
            ErrorCode::mismatch,
            std::to_string(a) + " / " + std::to_string(b) + " is not a whole number", false};
    }
    return a / b;
}

Index remainder_of(Index a, Index b) {
    if (b <= 0) {
        throw EvaluationFailure{ErrorCode::mismatch, std::to_string(a) + " % " + std::to_string(b),
                                false};
    }
    return (a % b + b) % b;
}

Index number_of(bool value) {
    return value ? 1 : 0;
}

using MaybeIndex = std::optional<Index>;

MaybeIndex logic(const Node& node, const Captures& captures, std::string* why) {
    const MaybeIndex left = evaluate(*node.args[0], captures, why);
    if (!left || node.op == Op::not_true) {
        return left ? MaybeIndex(number_of(*left == 0)) : MaybeIndex();
    }
    if ((*left != 0) == (node.op == Op::either)) {
        return number_of(node.op == Op::either);
    }
    const MaybeIndex right = evaluate(*node.args[1], captures, why);
    return right ? MaybeIndex(number_of(*right != 0)) : MaybeIndex();
}

MaybeIndex first_found(const Node& node, const Captures& captures, std::string* why) {
    std::string all;
    for (const NodePtr& arg : node.args) {
        std::string reason;
        if (const MaybeIndex found = evaluate(*arg, captures, &reason)) {
            return found;
        }
        all += (all.empty() || reason.empty() ? "" : "; ") + reason;
    }
    *why = all;
    return std::nullopt;
}

MaybeIndex operation(const Node& node, const Captures& captures, std::string* why) {
    switch (node.op) {
        case Op::both:
        case Op::either:
        case Op::not_true:
            return logic(node, captures, why);
        case Op::otherwise:
            return first_found(node, captures, why);
        default:
            break;
    }
    const MaybeIndex a = evaluate(*node.args[0], captures, why);
    const MaybeIndex b =
        !a || node.args.size() == 1 ? MaybeIndex(0) : evaluate(*node.args[1], captures, why);
    return a && b ? MaybeIndex(apply(node.op, *a, *b)) : MaybeIndex();
}

const FieldValue* element_at(const Node& node, const Captures& captures, std::string* why) {
    const MaybeIndex at = evaluate(*node.args[0], captures, why);
    if (!at) {
        return nullptr;
    }
    if (*at < 0 || *at >= static_cast<Index>(node.list->size())) {
        *why = node.text + " has no element " + std::to_string(*at);
        return nullptr;
    }
    return &(*node.list)[static_cast<std::size_t>(*at)];
}

/// The element, or nullptr also where it is null.
const FieldValue* known_element_at(const Node& node, const Captures& captures, std::string* why) {
    const FieldValue* const value = element_at(node, captures, why);
    if (value != nullptr && std::holds_alternative<std::monostate>(*value)) {
        *why = node.text + " has an element that is null";
        return nullptr;
    }
    return value;
}

MaybeIndex holds_element(const Node& node, const Captures& captures, std::string* why) {
    const MaybeIndex wanted = evaluate(*node.args[0], captures, why);
    if (!wanted) {
        return std::nullopt;
    }
    return number_of(std::binary_search(node.list->begin(), node.list->end(), FieldValue(*wanted)));
}

/// The field as a double; nullopt where it is absent.
std::optional<double> real_of(const Node& node, const Captures& captures, std::string* why) {
    const FieldValue* const value = known_element_at(node, captures, why);
    if (value == nullptr) {
        return std::nullopt;
    }
    const auto* const real = std::get_if<double>(value);
    return real != nullptr ? *real : static_cast<double>(as_integer(*value, node.text).value_or(0));
}

/// In doubles and from left to right, as the frameworks' Python computes such sizes.
MaybeIndex whole_part(const Node& node, const Captures& captures, std::string* why) {
    const std::optional<double> field = real_of(node, captures, why);
    if (!field) {
        return std::nullopt;
    }
    double real = *field;
    for (std::size_t i = 0; i < node.steps.size(); ++i) {
        const MaybeIndex factor = evaluate(*node.args[i + 1], captures, why);
        if (!factor) {
            return std::nullopt;
        }
        const auto number = static_cast<double>(*factor);
        real = node.steps[i] == Op::multiply ? real * number : real / number;
    }
    constexpr double kLimit = 9223372036854775808.0;
    if (!(real >= 0 && real < kLimit)) {
        throw EvaluationFailure{ErrorCode::mismatch,
                                node.text + " makes " + std::to_string(real) + ", expected a size",
                                false};
    }
    return static_cast<Index>(real);
}

MaybeIndex named(const Node& node, const Captures& captures, std::string* why) {
    try {
        return evaluate(*node.args[0], captures, why);
    } catch (EvaluationFailure& failure) {
        if (!failure.is_placed) {
            failure.what = node.text + ": " + failure.what;
            failure.is_placed = true;
        }
        throw;
    }
}

}  // namespace

std::optional<Index> as_integer(const FieldValue& value, const std::string& what) {
    if (const auto* number = std::get_if<Index>(&value)) {
        return *number;
    }
    if (const auto* real = std::get_if<double>(&value)) {
        throw EvaluationFailure{
            ErrorCode::mismatch,
            what + " is " + std::to_string(*real) + ", expected a whole number of 64 bits", false};
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
        throw EvaluationFailure{ErrorCode::mismatch,
                                what + " is the text \"" + *text + "\", expected a number", false};
    }
    return std::nullopt;
}

Index apply(Op op, Index a, Index b) {
    Index result = 0;
    switch (op) {
        case Op::negate:
            if (__builtin_sub_overflow(Index{0}, a, &result)) {
                throw too_large(0, "-", a);
            }
            return result;
        case Op::add:
            if (__builtin_add_overflow(a, b, &result)) {
                throw too_large(a, "+", b);
            }
            return result;
        case Op::subtract:
            if (__builtin_sub_overflow(a, b, &result)) {
                throw too_large(a, "-", b);
            }
            return result;
        case Op::multiply:
            if (__builtin_mul_overflow(a, b, &result)) {
                throw too_large(a, "*", b);
            }
            return result;
        case Op::divide:
            return divided(a, b);
        case Op::remainder:
            return remainder_of(a, b);
        case Op::equal:
            return number_of(a == b);
        case Op::not_equal:
            return number_of(a != b);
        case Op::less:
            return number_of(a < b);
        case Op::less_equal:
            return number_of(a <= b);
        case Op::greater:
            return number_of(a > b);
        case Op::greater_equal:
            return number_of(a >= b);
        default:
            throw EvaluationFailure{ErrorCode::internal, "an unknown operation", false};
    }
}

std::optional<Index> evaluate(const Node& node, const Captures& captures, std::string* why) {
    switch (node.kind) {
        case Node::Kind::constant:
            return node.value;
        case Node::Kind::absent:
            *why = node.text;
            return std::nullopt;
        case Node::Kind::broken:
            throw EvaluationFailure(node.failure);
        case Node::Kind::capture: {
            const auto bound = captures.find(node.text);
            return bound != captures.end() ? MaybeIndex(bound->second)
                                           : evaluate(*node.args[0], captures, why);
        }
        case Node::Kind::operation:
            return operation(node, captures, why);
        case Node::Kind::element: {
            const FieldValue* const value = known_element_at(node, captures, why);
            return value != nullptr ? as_integer(*value, "an element of " + node.text)
                                    : MaybeIndex();
        }
        case Node::Kind::is_text: {
            const FieldValue* const value = element_at(node, captures, why);
            const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
            const bool is_one = text != nullptr && std::find(node.texts.begin(), node.texts.end(),
                                                             *text) != node.texts.end();
            return value != nullptr ? MaybeIndex(number_of(is_one == (node.op == Op::is_text)))
                                    : MaybeIndex();
        }
        case Node::Kind::has:
            return holds_element(node, captures, why);
        case Node::Kind::floor:
            return whole_part(node, captures, why);
        case Node::Kind::named:
            return named(node, captures, why);
    }
    return std::nullopt;
}

std::optional<Index> constant_of(const Node& node) {
    return node.kind == Node::Kind::constant ? std::optional(node.value) : std::nullopt;
}

}  // namespace shardweld::models

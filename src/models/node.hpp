// The folded expression itself, shared by the folder and the evaluator.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "evaluator.hpp"

namespace shardweld::models {

struct Node {
    enum class Kind {
        constant,   ///< value
        absent,     ///< never has a value; text says why
        broken,     ///< evaluating it throws failure
        capture,    ///< the capture `text`; args[0] when the call does not bind it
        operation,  ///< op over args
        element,    ///< list[args[0]]
        is_text,    ///< list[args[0]] is one of texts
        has,        ///< list, which is sorted, holds args[0]
        floor,      ///< the whole part of list[args[0]] after steps with the other args
        named,      ///< args[0]; text names the symbol or condition in failures
    };
    Kind kind = Kind::constant;
    Op op = Op::number;
    Index value = 0;
    std::string text;
    EvaluationFailure failure;
    std::vector<NodePtr> args;
    std::shared_ptr<const std::vector<FieldValue>> list;
    std::vector<std::string> texts;
    std::vector<Op> steps;
};

/// A field's value as an integer; nullopt when absent. Throws EvaluationFailure for texts and
/// fractions; `what` names the field.
std::optional<Index> as_integer(const FieldValue& value, const std::string& what);

/// One operation on numbers. Throws EvaluationFailure when it is not exact or overflows.
Index apply(Op op, Index a, Index b);

}  // namespace shardweld::models

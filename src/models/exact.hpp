// Exact arithmetic of expressions: a result that is no whole number of 64 bits is a fault.
#pragma once

#include <string>
#include <utility>

#include "core/index.hpp"
#include "shardweld/error.hpp"

#include "config.hpp"
#include "expr.hpp"

namespace shardweld::models {

/// Why an expression never has a value (not exact, too large, a text where a number is needed),
/// before it is said in which symbol or condition.
class Fault : public Error {
  public:
    explicit Fault(std::string what, std::string hint = "")
        : Error(ErrorCode::mismatch, std::move(what), std::move(hint)) {}
};

/// One operation on numbers, of which a negation has only one. Throws Fault.
Index operated(Op op, Index a, Index b);

bool is_null(const FieldValue& value);

/// The number, which a text or a fraction is not; `what` names the field, `hint` says how to mend
/// it. Throws Fault.
Index integer_of(const FieldValue& value, const std::string& what, const std::string& hint);

}  // namespace shardweld::models

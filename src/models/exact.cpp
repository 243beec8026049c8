#include "exact.hpp"

#include <limits>
#include <string>
#include <variant>

#include "core/text.hpp"

namespace shardweld::models {

namespace {

Fault too_large(Index a, const char* mark, Index b) {
    return Fault(std::to_string(a) + " " + mark + " " + std::to_string(b) + " is too large");
}

Index divided(Index a, Index b) {
    const std::string text = std::to_string(a) + " / " + std::to_string(b);
    if (b == 0) {
        throw Fault(text);
    }
    if (a == std::numeric_limits<Index>::min() && b == -1) {
        throw too_large(a, "/", b);
    }
    if (a % b != 0) {
        throw Fault(text + " is not a whole number");
    }
    return a / b;
}

Index remainder_of(Index a, Index b) {
    if (b <= 0) {
        throw Fault(std::to_string(a) + " % " + std::to_string(b));
    }
    return (a % b + b) % b;
}

}  // namespace

Index operated(Op op, Index a, Index b) {
    Index result = 0;
    const auto exact = [&](bool overflows, const char* mark) {
        return overflows ? throw too_large(a, mark, b) : result;
    };
    switch (op) {
        case Op::negate:
            return operated(Op::subtract, 0, a);
        case Op::add:
            return exact(__builtin_add_overflow(a, b, &result), "+");
        case Op::subtract:
            return exact(__builtin_sub_overflow(a, b, &result), "-");
        case Op::multiply:
            return exact(__builtin_mul_overflow(a, b, &result), "*");
        case Op::divide:
            return divided(a, b);
        case Op::remainder:
            return remainder_of(a, b);
        case Op::equal:
            return Index{a == b};
        case Op::not_equal:
            return Index{a != b};
        case Op::less:
            return Index{a < b};
        case Op::less_equal:
            return Index{a <= b};
        case Op::greater:
            return Index{a > b};
        case Op::greater_equal:
            return Index{a >= b};
        default:
            throw Error(ErrorCode::internal, "an unknown operation");
    }
}

bool is_null(const FieldValue& value) {
    return std::holds_alternative<std::monostate>(value);
}

Index integer_of(const FieldValue& value, const std::string& what, const std::string& hint) {
    if (const auto* real = std::get_if<double>(&value)) {
        throw Fault(what + " is " + number_text(*real) + ", expected a whole number of 64 bits",
                    hint);
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
        throw Fault(what + " is the text \"" + *text + "\", expected a number", hint);
    }
    return std::get<Index>(value);
}

}  // namespace shardweld::models

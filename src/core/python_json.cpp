#include "shardweld/core/python_json.hpp"

#include <array>
#include <limits>
#include <utility>

#include "outside_strings.hpp"

namespace shardweld {

namespace {

struct Literal {
    std::string_view written;
    std::string_view stand_in;  ///< DEL, which no name holds, and as many bytes as are left
    double value;
};

constexpr std::array<Literal, 3> kLiterals = {{
    {"NaN", "\"\x7f\"", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "\"\x7f+inf \"", std::numeric_limits<double>::infinity()},
    {"-Infinity", "\"\x7f-inf  \"", -std::numeric_limits<double>::infinity()},
}};

const Literal* literal_at(std::string_view rest) {
    for (const Literal& literal : kLiterals) {
        if (rest.starts_with(literal.written)) {
            return &literal;
        }
    }
    return nullptr;
}

bool may_hold_stand_ins(std::string_view text) {
    return text.find('\x7f') != std::string_view::npos ||
           text.find("\\u007") != std::string_view::npos;
}

}  // namespace

std::string without_nonfinite(std::string_view text) {
    std::string out(text);
    if (may_hold_stand_ins(text)) {
        return out;
    }
    std::size_t end = 0;  // of the last one: -Infinity ends in Infinity
    (void)find_outside_strings(text, [&](std::size_t at, char /*c*/) {
        const Literal* const literal = at < end ? nullptr : literal_at(text.substr(at));
        if (literal != nullptr) {
            out.replace(at, literal->written.size(), literal->stand_in);
            end = at + literal->written.size();
        }
        return false;
    });
    return out;
}

std::string with_nonfinite(std::string text) {
    for (const Literal& literal : kLiterals) {
        for (std::size_t at = text.find(literal.stand_in); at != std::string::npos;
             at = text.find(literal.stand_in, at)) {
            text.replace(at, literal.stand_in.size(), literal.written);
        }
    }
    return text;
}

double nonfinite_value(std::string_view text) {
    for (const Literal& literal : kLiterals) {
        if (text == literal.stand_in.substr(1, literal.stand_in.size() - 2)) {
            return literal.value;
        }
    }
    return 0;
}

}  // namespace shardweld

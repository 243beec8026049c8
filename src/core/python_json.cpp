#include "shardweld/core/python_json.hpp"

#include <array>
#include <limits>
#include <utility>

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
    bool is_text = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (is_text) {
            i += c == '\\' ? 1U : 0U;
            is_text = c != '"';
        } else if (c == '"') {
            is_text = true;
        } else if (const Literal* const literal = literal_at(text.substr(i))) {
            out.replace(i, literal->written.size(), literal->stand_in);
            i += literal->written.size() - 1;
        }
    }
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

#include "json.hpp"

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "index.hpp"
#include "text.hpp"

namespace shardweld {

namespace {

/// Calls `visit(position, character)` for the characters outside of strings, the opening quotes
/// among them; it returns true to stop. The position it stopped at.
template <typename Visit>
std::optional<std::size_t> find_outside_strings(std::string_view text, const Visit& visit) {
    bool is_text = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (is_text) {
            i += c == '\\' ? 1U : 0U;
            is_text = c != '"';
            continue;
        }
        is_text = c == '"';
        if (visit(i, c)) {
            return i;
        }
    }
    return std::nullopt;
}

// An object of 30 000 fields, e.g. the names of as many classes.
constexpr Bytes kMostComparisons = 500'000'000;

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
    return has_part(text, '\x7f') || has_part(text, "\\u007");
}

}  // namespace

std::optional<std::size_t> too_deep_at(std::string_view text) {
    std::size_t depth = 0;
    return find_outside_strings(text, [&](std::size_t /*at*/, char c) {
        const bool is_end = (c == '}' || c == ']') && depth > 0;
        depth += c == '{' || c == '[' ? 1U : 0U;
        depth -= is_end ? 1U : 0U;
        return depth > kDeepestJson;
    });
}

std::optional<std::size_t> too_wide_at(std::string_view text) {
    std::vector<Bytes> fields;  // so far, of each object or list that is open
    Bytes n_comparisons = 0;
    return find_outside_strings(text, [&](std::size_t /*at*/, char c) {
        if (c == '{' || c == '[') {
            fields.push_back(0);
        } else if ((c == '}' || c == ']') && !fields.empty()) {
            fields.pop_back();
        } else if (c == ':' && !fields.empty()) {
            n_comparisons += ++fields.back();
        }
        return n_comparisons > kMostComparisons;
    });
}

std::optional<std::size_t> too_long_at(std::string_view text) {
    constexpr std::string_view kOfNumbers = "0123456789+-.eE";
    std::size_t length = 0;
    return find_outside_strings(text, [&](std::size_t /*at*/, char c) {
        length = !has_part(kOfNumbers, c) ? 0 : length + 1;
        return length > kLongestNumber;
    });
}

std::optional<JsonFault> fault_of_size(std::string_view text, bool keeps_order) {
    if (const auto at = too_deep_at(text)) {
        return JsonFault{JsonFlaw::deep, *at, ""};
    }
    if (const auto at = too_long_at(text)) {
        return JsonFault{JsonFlaw::number, *at, "a number is longer than any is"};
    }
    const auto at = keeps_order ? too_wide_at(text) : std::nullopt;
    return at ? std::optional(JsonFault{JsonFlaw::wide, *at, ""}) : std::nullopt;
}

std::optional<JsonFault> fault_of_bytes(std::string_view text) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    if (text.starts_with(kMark)) {
        return JsonFault{JsonFlaw::mark, 0, ""};
    }
    const std::size_t nul = text.find('\0');
    return nul == std::string_view::npos
               ? std::nullopt
               : std::optional(JsonFault{JsonFlaw::syntax, nul, "a NUL byte"});
}

std::string reason_in(std::string_view what) {
    const std::size_t name = what.starts_with("[json.exception.") ? what.find("] ") : what.npos;
    return std::string(name == what.npos ? what : what.substr(name + 2));
}

std::string json_string(std::string_view text) {
    const bool is_plain = std::ranges::all_of(
        text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    return is_plain ? '"' + std::string(text) + '"' : nlohmann::json(text).dump();
}

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
        text = replaced(std::move(text), literal.stand_in, literal.written);
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

template <typename Json>
Json parse_json(std::string_view text, std::optional<JsonFault>* fault,
                const typename Json::parser_callback_t& visit) {
    constexpr bool kKeepsOrder = requires {
        typename Json::object_t::Container;
    };
    std::optional<JsonFault> found = fault_of_bytes(text);
    found = found ? found : fault_of_size(text, kKeepsOrder);
    if (!found) {
        try {
            return Json::parse(text, visit);
        } catch (const typename Json::parse_error& error) {
            found = {JsonFlaw::syntax, error.byte > 0 ? error.byte - 1 : 0,
                     reason_in(error.what())};
        } catch (const typename Json::exception& error) {
            found = {JsonFlaw::number, 0, reason_in(error.what())};
        }
    }
    if (fault != nullptr) {
        *fault = std::move(found);
    }
    return Json(Json::value_t::discarded);
}

template <typename Json>
Json parse_known_json(std::string_view text) {
    return Json::parse(text, nullptr, false);
}

template <typename Json>
bool hear_json(std::string_view text, typename Json::json_sax_t& listener) {
    return !fault_of_bytes(text) && !fault_of_size(text, false) && Json::sax_parse(text, &listener);
}

#define SHARDWELD_READERS_OF(Json)                                              \
    template Json parse_json<Json>(std::string_view, std::optional<JsonFault>*, \
                                   const Json::parser_callback_t&);             \
    template Json parse_known_json<Json>(std::string_view);                     \
    template bool hear_json<Json>(std::string_view, Json::json_sax_t&);
SHARDWELD_READERS_OF(nlohmann::json)
SHARDWELD_READERS_OF(nlohmann::ordered_json)
#undef SHARDWELD_READERS_OF

}  // namespace shardweld

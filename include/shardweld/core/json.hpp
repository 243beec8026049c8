// The one way from the text of a JSON file to values: within limits, by nlohmann's parser.
// Includes nothing of that library, which an installed shardweld does without; callers do.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shardweld/core/json_limits.hpp"

namespace shardweld {

/// Why a text is not read.
struct JsonFault {
    enum class Kind {
        deep,    ///< nested deeper than kDeepestJson
        wide,    ///< more fields than a parser that keeps their order gets through
        syntax,  ///< no valid JSON
        number   ///< a number that no type holds
    };
    Kind kind = Kind::syntax;
    std::size_t at = 0;  ///< byte, from 0; of a number: unknown
    std::string what;    ///< the parser's words, "" of limits
};

/// What of a text is beyond the limits; `keeps_order`: of a parser that does.
std::optional<JsonFault> fault_of_size(std::string_view text, bool keeps_order);

/// The value, of type nlohmann::json or ordered_json; a discarded one (is_discarded()) when the
/// text is not valid JSON or beyond the limits, with the reason in `fault` if it is given. `visit`
/// may take values out while the text is read, so that large ones are never in memory as a tree.
template <typename Json>
Json parse_json(std::string_view text, std::optional<JsonFault>* fault = nullptr,
                const typename Json::parser_callback_t& visit = nullptr) {
    constexpr bool kKeepsOrder = requires {
        typename Json::object_t::Container;
    };
    std::optional<JsonFault> found = fault_of_size(text, kKeepsOrder);
    if (!found) {
        try {
            return Json::parse(text, visit);
        } catch (const typename Json::parse_error& error) {
            found = {JsonFault::Kind::syntax, error.byte > 0 ? error.byte - 1 : 0, error.what()};
        } catch (const typename Json::exception& error) {
            found = {JsonFault::Kind::number, 0, error.what()};
        }
    }
    if (fault != nullptr) {
        *fault = std::move(found);
    }
    return Json(Json::value_t::discarded);
}

/// Tells `listener`, a json_sax, what is in the text; false when it is not valid JSON, nested too
/// deeply (then the listener gets nothing) or not read to its end.
template <typename Json, typename Listener>
bool hear_json(std::string_view text, Listener& listener) {
    return !too_deep_at(text) && Json::sax_parse(text, &listener);
}

}  // namespace shardweld

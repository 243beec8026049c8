// A walk over a JSON text that is not parsed yet. Knows quotes and backslashes only.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace shardweld {

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

}  // namespace shardweld

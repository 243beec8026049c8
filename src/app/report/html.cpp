#include "html.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The bytes of a control or direction character at the beginning; 0 if it is none.
std::size_t unseen_length(std::string_view text) {
    const auto at = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
    };
    if ((at(0) < 0x20U && at(0) != '\n') || at(0) == 0x7FU) {
        return 1;
    }
    if (at(0) == 0xC2U && at(1) >= 0x80U && at(1) < 0xA0U) {
        return 2;
    }
    const bool turns = at(0) == 0xE2U && ((at(1) == 0x80U && at(2) >= 0xAAU && at(2) <= 0xAEU) ||
                                          (at(1) == 0x81U && at(2) >= 0xA6U && at(2) <= 0xA9U));
    return turns ? 3 : 0;
}

std::string_view escape_of(char c) {
    switch (c) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '"':
            return "&quot;";
        case '\'':
            return "&#39;";
        default:
            return "";
    }
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t unseen = unseen_length(text);
        const std::string_view escape = escape_of(text.front());
        out += unseen > 0 ? kReplacement : escape.empty() ? text.substr(0, 1) : escape;
        text.remove_prefix(unseen > 0 ? unseen : 1);
    }
    return out;
}

std::string element(std::string_view name, std::string_view attributes, std::string_view content) {
    const std::string tag(name);
    return "<" + tag + (attributes.empty() ? "" : " ") + std::string(attributes) + ">" +
           std::string(content) + "</" + tag + ">";
}

}  // namespace shardweld::app

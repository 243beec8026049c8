#include "redact.hpp"

#include <algorithm>
#include <cctype>

#include "encodings.hpp"

namespace shardweld::upload {

namespace {

constexpr std::string_view kWordEnds = " \t\"'<>)]},;";
constexpr std::size_t kLeastToken = 16;

bool is_alphanumeric(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// Where `word` begins in `text` from `from` on, letters of either case; npos if nowhere.
std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
    const auto found =
        std::search(text.begin() + static_cast<std::ptrdiff_t>(std::min(from, text.size())),
                    text.end(), word.begin(), word.end(), [](char a, char b) {
                        return std::tolower(static_cast<unsigned char>(a)) ==
                               std::tolower(static_cast<unsigned char>(b));
                    });
    return found == text.end() ? std::string::npos : static_cast<std::size_t>(found - text.begin());
}

std::size_t end_of_word(const std::string& text, std::size_t from) {
    return std::min(text.find_first_of(kWordEnds, from), text.size());
}

void hide_tokens(std::string& text) {
    for (std::size_t at = text.find("hf_"); at != std::string::npos;
         at = text.find("hf_", at + 3)) {
        std::size_t end = at + 3;
        while (end < text.size() && is_alphanumeric(text[end])) {
            ++end;
        }
        if (end - at >= 3 + kLeastToken) {
            text.replace(at, end - at, kHidden);
        }
    }
}

void hide_headers(std::string& text) {
    constexpr std::string_view kHeader = "authorization";
    constexpr std::string_view kScheme = "bearer ";
    const std::size_t header = find_word(text, kHeader, 0);
    // Prose mentions authorization, too; in a header a sign and a value follow.
    if (header != std::string::npos) {
        const std::size_t sign = text.find_first_not_of("\"' ", header + kHeader.size());
        if (sign != std::string::npos && (text[sign] == ':' || text[sign] == '=')) {
            text.replace(sign + 1, std::string::npos, kHidden);
        }
    }
    for (std::size_t at = find_word(text, kScheme, 0); at != std::string::npos;
         at = find_word(text, kScheme, at + kScheme.size())) {
        const std::size_t begin = at + kScheme.size();
        text.replace(begin, end_of_word(text, begin) - begin, kHidden);
    }
}

void hide_in_addresses(std::string& text) {
    constexpr std::string_view kBegin = "://";
    for (std::size_t at = text.find(kBegin); at != std::string::npos; at = text.find(kBegin, at)) {
        at += kBegin.size();
        const std::size_t host_end = std::min(text.find_first_of("/?", at), end_of_word(text, at));
        const std::size_t user_end = text.find('@', at);
        if (user_end != std::string::npos && user_end < host_end) {
            text.replace(at, user_end - at, kHidden);
        }
        const std::size_t parameters = text.find('?', at);
        const std::size_t end = end_of_word(text, at);
        if (parameters != std::string::npos && parameters < end) {
            text.replace(parameters + 1, end - parameters - 1, kHidden);
        }
    }
}

}  // namespace

std::string redacted(std::string_view line, std::span<const std::string> secrets) {
    std::string text = hide_pieces(line, secrets);
    hide_tokens(text);
    hide_headers(text);
    hide_in_addresses(text);
    return text;
}

}  // namespace shardweld::upload

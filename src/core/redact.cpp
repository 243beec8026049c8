#include "redact.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "path.hpp"
#include "text.hpp"

extern char** environ;  // NOLINT: not every libc declares it, and it is as it is

namespace shardweld {

namespace {

/// What stands where a secret stood.
inline constexpr std::string_view kHidden = "***";

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
    // Prose mentions authorization, too; in a header a sign and a value follow.
    for (std::size_t at = find_word(text, kHeader, 0); at != std::string::npos;
         at = find_word(text, kHeader, at + kHeader.size())) {
        const std::size_t sign = text.find_first_not_of("\"' ", at + kHeader.size());
        if (sign != std::string::npos && (text[sign] == ':' || text[sign] == '=')) {
            const std::size_t end = std::min(text.find('\n', sign), text.size());
            text.replace(sign + 1, end - sign - 1, kHidden);
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

void hide_forms(std::string& text) {
    hide_tokens(text);
    hide_headers(text);
    hide_in_addresses(text);
}

char upper(char letter) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
}

/// Whether a variable or an option of this name holds what must not be shown. config.json's
/// "pad_token_id" and "num_key_value_heads" are in small letters.
bool is_secret_name(std::string_view name) {
    const bool is_option = name.starts_with("--");
    std::string whole(name);
    if (is_option) {
        std::ranges::transform(whole, whole.begin(), upper);
        std::ranges::replace(whole, '-', '_');
    } else if (std::ranges::any_of(whole, [](char c) { return c >= 'a' && c <= 'z'; })) {
        return false;
    }
    constexpr std::array<std::string_view, 6> kWords = {"SECRET",     "PASSW", "PASSPHRASE",
                                                        "CREDENTIAL", "JWT",   "ACCESS_KEY"};
    constexpr std::array<std::string_view, 6> kEnds = {"TOKEN", "_KEY",  "_PASS",
                                                       "_SAS",  "_CRED", "_CREDS"};
    return std::ranges::any_of(kWords, [&](std::string_view w) { return has_part(whole, w); }) ||
           std::ranges::any_of(kEnds, [&](std::string_view w) { return whole.ends_with(w); });
}

/// "HF_TOKEN=..." and "--api-key=...".
void hide_values(std::string& text) {
    constexpr std::string_view kBefore = " \t\n\"'`({,;";
    for (std::size_t sign = text.find('='); sign != std::string::npos;
         sign = text.find('=', sign + 1)) {
        const std::size_t before =
            sign == 0 ? std::string::npos : text.find_last_of(kBefore, sign - 1);
        const std::size_t begin = before == std::string::npos ? 0 : before + 1;
        if (is_secret_name(std::string_view(text).substr(begin, sign - begin))) {
            text.replace(sign + 1, end_of_word(text, sign + 1) - sign - 1, kHidden);
        }
    }
}

/// Whether a value of the environment may be a secret: long enough, and no file that is named.
bool is_secret_value(const std::string& value) {
    constexpr std::size_t kLeast = 8;
    std::error_code unknown;
    return value.size() >= kLeast && !(value.front() == '/' && fs::exists(value, unknown));
}

const std::vector<std::string>& secrets_of_environment() {
    static const std::vector<std::string> secrets = [] {
        std::vector<std::string> found;
        for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
            const std::string_view variable = *at;
            const std::size_t sign = variable.find('=');
            const std::string value(variable.substr(std::min(sign, variable.size() - 1) + 1));
            if (is_secret_name(variable.substr(0, sign)) && is_secret_value(value)) {
                found.push_back(value);
            }
        }
        return found;
    }();
    return secrets;
}

}  // namespace

std::string without_secrets(std::string_view text) {
    std::string shown(text);
    for (const std::string& secret : secrets_of_environment()) {
        shown = replaced(std::move(shown), secret, kHidden);
    }
    hide_forms(shown);
    hide_values(shown);
    return shown;
}

}  // namespace shardweld

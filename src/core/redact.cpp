#include "redact.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
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

constexpr std::size_t kPiece = 8;
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A text made of another: its letter i was written at [from[i], from[i + 1]) there.
struct DecodedText {
    std::string text;
    std::vector<std::size_t> from;

    void add(char letter, std::size_t end) {
        text += letter;
        from.push_back(end);
    }
};

DecodedText plain(std::string_view text) {
    DecodedText view{std::string(text), {}};
    for (std::size_t i = 0; i <= text.size(); ++i) {
        view.from.push_back(i);
    }
    return view;
}

template <typename Change>
DecodedText mapped(DecodedText view, const Change& change) {
    std::transform(view.text.begin(), view.text.end(), view.text.begin(), change);
    return view;
}

/// A letter and how many it is written with.
struct Escape {
    char letter = 0;
    std::size_t size = 0;
};

std::optional<Escape> escape_number(std::string_view digits, int base, std::size_t around) {
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
        value > 255) {
        return std::nullopt;
    }
    return Escape{static_cast<char>(value), digits.size() + around};
}

std::optional<Escape> behind_backslash(std::string_view rest) {
    const char kind = rest.size() > 1 ? rest[1] : ' ';
    const std::size_t n_digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (n_digits > 0) {
        return rest.size() < 2 + n_digits ? std::nullopt
                                          : escape_number(rest.substr(2, n_digits), 16, 2);
    }
    if (kind >= '0' && kind <= '7' && rest.size() >= 4) {
        return escape_number(rest.substr(1, 3), 8, 1);
    }
    return std::ispunct(static_cast<unsigned char>(kind)) != 0 ? std::optional(Escape{kind, 2})
                                                               : std::nullopt;
}

/// What stands at the beginning of `rest`, where that is an escape.
std::optional<Escape> escape_at(std::string_view rest) {
    if (rest.front() == '\\') {
        return behind_backslash(rest);
    }
    if (rest.front() == '%' && rest.size() >= 3) {
        return escape_number(rest.substr(1, 2), 16, 1);
    }
    const std::size_t end = rest.substr(0, 10).find(';');
    if (rest.starts_with("&#") && end != std::string_view::npos) {
        const bool is_hex = rest[2] == 'x' || rest[2] == 'X';
        const std::size_t begin = is_hex ? 3 : 2;
        return end < begin
                   ? std::nullopt
                   : escape_number(rest.substr(begin, end - begin), is_hex ? 16 : 10, begin + 1);
    }
    return std::nullopt;
}

DecodedText unescaped(const DecodedText& view) {
    const std::string_view text = view.text;
    DecodedText result{"", {view.from.front()}};
    for (std::size_t i = 0; i < text.size();) {
        const auto escape = escape_at(text.substr(i));
        const char letter = escape ? escape->letter : text[i];
        i += escape ? escape->size : 1;
        result.add(letter, view.from[i]);
    }
    return result;
}

/// All stretches of one length of some texts.
class Pieces {
  public:
    /// Those that begin at multiples of `step`, all of a text that is shorter.
    void add(std::string_view text, std::size_t size, std::size_t step = 1) {
        const std::size_t taken = std::min(size, text.size());
        for (std::size_t at = 0; taken > 0 && at + taken <= text.size(); at += step) {
            (taken == size ? whole_ : short_).emplace(text.substr(at, taken));
        }
        size_ = size;
    }
    /// Marks where `view` holds one of them.
    void mark(const DecodedText& view, std::vector<bool>& marks) const {
        for (std::size_t at = 0; at + size_ <= view.text.size(); ++at) {
            if (whole_.contains(view.text.substr(at, size_))) {
                mark(view, at, size_, marks);
            }
        }
        for (const std::string& piece : short_) {
            for (std::size_t at = view.text.find(piece); at != std::string::npos;
                 at = view.text.find(piece, at + 1)) {
                mark(view, at, piece.size(), marks);
            }
        }
    }

  private:
    static void mark(const DecodedText& view, std::size_t at, std::size_t size,
                     std::vector<bool>& marks) {
        std::fill(marks.begin() + static_cast<std::ptrdiff_t>(view.from[at]),
                  marks.begin() + static_cast<std::ptrdiff_t>(view.from[at + size]), true);
    }

    std::unordered_set<std::string> whole_;
    std::unordered_set<std::string> short_;  ///< shorter than that
    std::size_t size_ = 0;
};

std::string hex_of(std::string_view secret) {
    std::string text;
    for (const char letter : secret) {
        const auto byte = static_cast<unsigned char>(letter);
        text += kHex[byte >> 4U];
        text += kHex[byte & 15U];
    }
    return text;
}

/// The digits that a secret alone decides, when `shift` bytes of others' stand in front of it.
std::string base64_of(std::string_view secret, std::size_t shift) {
    std::string text;
    unsigned bits = 0;
    unsigned n_bits = 0;
    const std::string data = std::string(shift, '\0') + std::string(secret);
    for (const char letter : data) {
        bits = (bits << 8U) | static_cast<unsigned char>(letter);
        for (n_bits += 8; n_bits >= 6; n_bits -= 6) {
            text += kBase64[(bits >> (n_bits - 6U)) & 63U];
        }
    }
    return text.substr(std::min(text.size(), shift == 0 ? 0 : shift + 1));
}

char lower(char letter) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

char usual_base64(char letter) {
    return letter == '-' ? '+' : letter == '_' ? '/' : letter;
}

/// `text` with *** for every stretch of it that holds a piece of a secret of eight bytes or more
/// (of a shorter secret: all of it): plain, as base64 of either alphabet and at any place in what
/// is encoded, as hex digits, or with bytes written %XX, \xXX, \uXXXX, \ooo, &#NN; or behind a
/// backslash, also twice so. A secret that is wrapped over lines is hidden in each of them.
std::string hide_pieces(std::string_view text, std::span<const std::string> secrets) {
    Pieces as_they_are;
    Pieces as_hex;
    Pieces as_base64;
    for (const std::string& secret : secrets) {
        as_they_are.add(secret, kPiece);
        as_hex.add(hex_of(secret), 2 * kPiece, 2);
        for (std::size_t shift = 0; shift < 3; ++shift) {
            as_base64.add(base64_of(secret, shift), kPiece);
        }
    }
    std::vector<bool> marks(text.size());
    DecodedText view = plain(text);
    for (int depth = 0; depth < 3; ++depth) {
        as_they_are.mark(view, marks);
        as_hex.mark(mapped(view, lower), marks);
        as_base64.mark(mapped(view, usual_base64), marks);
        view = unescaped(view);
    }
    std::string hidden;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!marks[i]) {
            hidden += text[i];
        } else if (i == 0 || !marks[i - 1]) {
            hidden += kHidden;
        }
    }
    return hidden;
}

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
    return std::ranges::any_of(
               kWords, [&](std::string_view w) { return whole.find(w) != std::string::npos; }) ||
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

/// Of the environment: long enough to be one, and no file that is named.
bool is_secret_value(const std::string& value) {
    constexpr std::size_t kLeast = 8;
    std::error_code unknown;
    return value.size() >= kLeast && !(value.front() == '/' && fs::exists(value, unknown));
}

}  // namespace

std::string redacted(std::string_view line, std::span<const std::string> secrets) {
    std::string text = hide_pieces(line, secrets);
    hide_forms(text);
    return text;
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

// Numbers and text of a pickle.
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "pickle_machine.hpp"

namespace shardweld::formats {

namespace {

// The whole of `text` as a number; false if it is none.
template <typename T>
bool parse_number(std::string_view text, T& value) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void append_utf8(std::string& out, std::uint32_t code) {
    const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0U | (code >> 6U));
        put(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
        put(0xE0U | (code >> 12U));
        put(0x80U | ((code >> 6U) & 0x3FU));
        put(0x80U | (code & 0x3FU));
    } else {
        put(0xF0U | (code >> 18U));
        put(0x80U | ((code >> 12U) & 0x3FU));
        put(0x80U | ((code >> 6U) & 0x3FU));
        put(0x80U | (code & 0x3FU));
    }
}

// The value of `digits` hexadecimal digits at `at`; false when they are not there.
bool hex_value(std::string_view text, std::size_t at, std::size_t digits, std::uint32_t& value) {
    if (at > text.size() || digits > text.size() - at) {
        return false;
    }
    value = 0;
    for (const char c : text.substr(at, digits)) {
        const int digit = hex_digit(c);
        if (digit < 0) {
            return false;
        }
        value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    return true;
}

// One escape of repr() at text[at] (behind the backslash); advances `at`. False if malformed.
bool decode_escape(std::string_view text, std::size_t& at, std::string& out) {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    if (at >= text.size()) {
        return false;
    }
    const char c = text[at++];
    if (c == 'x') {
        std::uint32_t value = 0;
        if (!hex_value(text, at, 2, value)) {
            return false;
        }
        at += 2;
        append_utf8(out, value);
        return true;
    }
    const std::size_t known = kNames.find(c);
    if (known == std::string_view::npos) {
        return false;
    }
    out.push_back(kValues[known]);
    return true;
}

bool decode_repr(std::string_view text, std::string& out) {
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] != '\\') {
            out.push_back(text[i++]);
            continue;
        }
        ++i;
        if (!decode_escape(text, i, out)) {
            return false;
        }
    }
    return true;
}

// raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
bool decode_raw_unicode(std::string_view text, std::string& out) {
    for (std::size_t i = 0; i < text.size();) {
        const bool is_escape =
            text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'u' || text[i + 1] == 'U');
        if (!is_escape) {
            append_utf8(out, static_cast<unsigned char>(text[i++]));
            continue;
        }
        const std::size_t digits = text[i + 1] == 'u' ? 4 : 8;
        std::uint32_t code = 0;
        if (!hex_value(text, i + 2, digits, code) || code > 0x10FFFF) {
            return false;
        }
        append_utf8(out, code);
        i += 2 + digits;
    }
    return true;
}

}  // namespace

void PickleMachine::push_new_integer(std::int64_t value) {
    PickleValue* const made = fresh(PickleKind::integer);
    if (!is_skipped(made)) {
        made->integer = value;
        if (value >= 0 && value < 256) {
            made->detail = pickle_detail::kShared;
            small_integers_[static_cast<std::size_t>(value)] = made;
        }
    }
    push(made);
}

void PickleMachine::on_none() {
    push(none_);
}

void PickleMachine::push_boolean(bool value) {
    push(booleans_[value ? 1 : 0]);
}

void PickleMachine::on_int() {
    const std::string_view text = line("INT");
    if (text == "00" || text == "01") {
        push_boolean(text == "01");
        return;
    }
    std::int64_t value = 0;
    if (!parse_number(text, value)) {
        fail("INT holds no 64-bit number");
    }
    push_integer(value);
}

void PickleMachine::on_long() {
    std::string_view text = line("LONG");
    if (text.ends_with('L')) {
        text.remove_suffix(1);
    }
    std::int64_t value = 0;
    if (!parse_number(text, value)) {
        fail("LONG holds no 64-bit number");
    }
    push_integer(value);
}

void PickleMachine::on_float() {
    double value = 0;
    if (!parse_number(line("FLOAT"), value)) {
        fail("FLOAT holds no number");
    }
    PickleValue* const real = fresh(PickleKind::real);
    if (!is_skipped(real)) {
        real->real = value;
    }
    push(real);
}

void PickleMachine::on_binfloat() {
    const auto value = std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>("BINFLOAT")));
    PickleValue* const real = fresh(PickleKind::real);
    if (!is_skipped(real)) {
        real->real = value;
    }
    push(real);
}

void PickleMachine::on_long1() {
    push_long(sized<std::uint8_t>("LONG1"));
}

void PickleMachine::on_long4() {
    const auto size = number<std::int32_t>("LONG4");
    if (size < 0) {
        fail("LONG4 has the negative length " + std::to_string(size));
    }
    push_long(take(static_cast<std::uint64_t>(size), "LONG4"));
}

void PickleMachine::push_long(std::string_view raw) {
    const bool negative = !raw.empty() && (static_cast<unsigned char>(raw.back()) & 0x80U) != 0;
    if (raw.size() > sizeof(std::int64_t)) {
        push(fresh_text(PickleKind::big_integer, raw));
        return;
    }
    std::int64_t value = negative ? -1 : 0;
    std::memcpy(&value, raw.data(), raw.size());
    push_integer(value);
}

void PickleMachine::on_string() {
    const std::string_view text = line("STRING");
    const bool is_quoted = text.size() >= 2 && text.front() == text.back() &&
                           (text.front() == '\'' || text.front() == '"');
    std::string decoded;
    if (!is_quoted || !decode_repr(text.substr(1, text.size() - 2), decoded)) {
        fail("STRING is not quoted or holds a wrong escape");
    }
    push_text(pickle_.texts_.emplace_back(std::move(decoded)));
}

void PickleMachine::on_unicode() {
    std::string decoded;
    if (!decode_raw_unicode(line("UNICODE"), decoded)) {
        fail("UNICODE holds a wrong escape");
    }
    push_text(pickle_.texts_.emplace_back(std::move(decoded)));
}

void PickleMachine::on_binstring() {
    const auto size = number<std::int32_t>("BINSTRING");
    if (size < 0) {
        fail("BINSTRING has the negative length " + std::to_string(size));
    }
    push_text(take(static_cast<std::uint64_t>(size), "BINSTRING"));
}

void PickleMachine::push_text(std::string_view text) {
    if (!skipped_key_.empty()) {
        start_skipping_at(text);
    }
    push(fresh_text(PickleKind::text, text));
    if (skipping_ && skip_height_ == 0) {
        skip_height_ = stack_.size();
    }
}

// The key of the outermost state has just come: under the only mark lie the state's dict and its
// object. A text at the key's own height afterwards begins the next key.
void PickleMachine::start_skipping_at(std::string_view text) {
    if (marks_.size() != 2) {
        return;
    }
    if (skipping_) {
        skipping_ = stack_.size() != skip_height_ + 1;
        return;
    }
    const std::size_t above = stack_.size() - marks_.back();
    if (text == skipped_key_ && above % 2 == 0 && marks_.back() == 2) {
        skipping_ = true;
        skip_height_ = 0;
    }
}

}  // namespace shardweld::formats

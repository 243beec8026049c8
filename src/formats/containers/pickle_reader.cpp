#include "pickle_reader.hpp"

#include <charconv>
#include <cstdint>

#include "shardweld/error.hpp"

#include "pickle.hpp"

namespace shardweld::formats {

void PickleReader::fail(const std::string& message) const {
    throw Error(ErrorCode::corrupt,
                "pickle: " + message + " (opcode at byte " + std::to_string(opcode_at_) + ")");
}

void PickleReader::refuse_hostile(const std::string& message) const {
    throw Error(ErrorCode::corrupt,
                "pickle: " + message + " (opcode at byte " + std::to_string(opcode_at_) + ")",
                "do not open this file with torch.load; find out who wrote it");
}

void PickleReader::refuse_opcode() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::string code = {'0', 'x', kDigits[opcode() >> 4U], kDigits[opcode() & 15U]};
    if (kPickleOpcodes[opcode()].name == nullptr) {
        fail("unknown opcode " + code);
    }
    refuse_hostile("disallowed opcode " + opcode_name() + " (" + code + "): no trainer writes it");
}

std::string_view PickleReader::take_signed(std::int32_t size) {
    if (size < 0) {
        fail(opcode_name() + " has the negative length " + std::to_string(size));
    }
    return take(static_cast<std::uint64_t>(size));
}

std::string_view PickleReader::take_lines(int count) {
    const std::size_t begin = position_;
    for (int i = 0; i < count; ++i) {
        const std::size_t end = bytes_.find('\n', position_);
        if (end == std::string_view::npos) {
            throw PickleCutShort("pickle: " + opcode_name() + " at byte " +
                                 std::to_string(position_) + " has no end of line");
        }
        position_ = end + 1;
    }
    return bytes_.substr(begin, position_ - 1 - begin);
}

void PickleReader::throw_no_stop() const {
    throw PickleCutShort(bytes_.empty() ? "pickle: it is empty"
                                        : "pickle: ends without STOP after " +
                                              std::to_string(position_) + " bytes");
}

void PickleReader::throw_cut_short(std::uint64_t size) const {
    throw PickleCutShort("pickle: " + opcode_name() + " runs past the end: " +
                         std::to_string(size) + " bytes at byte " + std::to_string(position_) +
                         ", " + std::to_string(bytes_.size() - position_) + " left");
}

namespace {

void append_utf8(std::string& out, std::uint32_t code) {
    if (code < 0x80) {
        out.push_back(static_cast<char>(code));
        return;
    }
    const unsigned n_more = code < 0x800 ? 1 : (code < 0x10000 ? 2 : 3);
    out.push_back(static_cast<char>((0xFF00U >> (n_more + 1)) | (code >> (6 * n_more))));
    for (unsigned i = n_more; i-- > 0;) {
        out.push_back(static_cast<char>(0x80U | ((code >> (6 * i)) & 0x3FU)));
    }
}

// Takes a code point of `digits` hexadecimal digits off the front of `text`.
bool take_hex(std::string_view& text, std::size_t digits, std::string& out) {
    std::uint32_t code = 0;
    if (digits > text.size()) {
        return false;
    }
    const char* const end = text.data() + digits;
    const auto result = std::from_chars(text.data(), end, code, 16);
    text.remove_prefix(digits);
    append_utf8(out, code);
    return result.ec == std::errc() && result.ptr == end && code <= 0x10FFFF;
}

// An escape of repr(), behind its backslash.
bool take_escape(std::string_view& text, std::string& out) {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    const char name = text.empty() ? '\0' : text.front();
    text.remove_prefix(text.empty() ? 0 : 1);
    if (name == 'x') {
        return take_hex(text, 2, out);
    }
    const std::size_t known = kNames.find(name);
    out.push_back(known == std::string_view::npos ? '?' : kValues[known]);
    return known != std::string_view::npos;
}

}  // namespace

std::optional<std::string> text_of_repr(std::string_view text) {
    if (text.size() < 2 || text.front() != text.back() ||
        (text.front() != '\'' && text.front() != '"')) {
        return std::nullopt;
    }
    std::string out;
    for (text = text.substr(1, text.size() - 2); !text.empty();) {
        const char c = text.front();
        text.remove_prefix(1);
        if (c != '\\') {
            out.push_back(c);
        } else if (!take_escape(text, out)) {
            return std::nullopt;
        }
    }
    return out;
}

std::optional<std::string> text_of_raw_unicode(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const bool is_short = text.starts_with("\\u");
        if (!is_short && !text.starts_with("\\U")) {
            append_utf8(out, static_cast<unsigned char>(text.front()));
            text.remove_prefix(1);
            continue;
        }
        text.remove_prefix(2);
        if (!take_hex(text, is_short ? 4 : 8, out)) {
            return std::nullopt;
        }
    }
    return out;
}

std::optional<std::string> bytes_of_latin1(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead < 0x80) {
            out.push_back(text[i]);
            continue;
        }
        const unsigned next = ++i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
        if ((lead != 0xC2 && lead != 0xC3) || (next & 0xC0U) != 0x80U) {
            return std::nullopt;
        }
        out.push_back(static_cast<char>((lead & 0x03U) << 6U | (next & 0x3FU)));
    }
    return out;
}

}  // namespace shardweld::formats

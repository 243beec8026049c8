#include "scanner.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

namespace {

constexpr std::array<std::string_view, 18> kMarks = {
    "<=", ">=", "!=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", "|", ",", "?"};

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

std::size_t end_of_name(std::string_view text, std::size_t from) {
    while (from < text.size() && is_name_part(text[from])) {
        ++from;
    }
    return from;
}

std::string token_text(const Token& token) {
    switch (token.kind) {
        case TokenKind::end:
            return "the end";
        case TokenKind::field:
            return "'@" + token.text + "'";
        case TokenKind::claim:
            return "'$" + token.text + "'";
        case TokenKind::text:
            return "\"" + printable(token.text) + "\"";
        case TokenKind::number:
        case TokenKind::name:
        case TokenKind::mark:
            return "'" + printable(token.text) + "'";
    }
    return "";
}

}  // namespace

bool is_name(std::string_view text) {
    return !text.empty() && is_name_start(text[0]) && end_of_name(text, 0) == text.size();
}

void Scanner::fail(std::size_t column, const std::string& what) const {
    throw Error(ErrorCode::usage, origin_ + ": column " + std::to_string(column) + ": " + what);
}

void Scanner::fail_expected(std::string_view what) {
    const Token token = peek();
    fail(token.column, "expected " + std::string(what) + ", found " + token_text(token));
}

void Scanner::skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
        ++at_;
    }
}

void Scanner::scan_path(Token& token) {
    // A dot joins names only when a name follows, so that a sentence's end is no path.
    const std::size_t begin = ++at_;
    std::size_t end = end_of_name(text_, begin);
    while (end > begin && end + 1 < text_.size() && text_[end] == '.') {
        const std::string_view each = ".*.";
        const std::size_t next = end + (text_.substr(end).starts_with(each) ? each.size() : 1);
        if (next == text_.size() || !is_name_start(text_[next])) {
            break;
        }
        end = end_of_name(text_, next);
    }
    if (end == begin || is_digit(text_[begin])) {
        fail(token.column, "expected a name after '" + std::string(1, text_[begin - 1]) + "'");
    }
    token.text = text_.substr(begin, end - begin);
    at_ = end;
}

Token Scanner::scan() {
    skip_blanks();
    Token token;
    token.column = at_ + 1;
    if (at_ == text_.size()) {
        return token;
    }
    const char c = text_[at_];
    const std::size_t begin = at_;
    if (c == '@' || c == '$') {
        token.kind = c == '@' ? TokenKind::field : TokenKind::claim;
        scan_path(token);
        return token;
    }
    if (c == '"') {
        const std::size_t end = text_.find('"', at_ + 1);
        if (end == std::string_view::npos) {
            fail(token.column, "the text has no closing quote");
        }
        token.kind = TokenKind::text;
        token.text = text_.substr(begin + 1, end - begin - 1);
        at_ = end + 1;
        return token;
    }
    if (is_name_part(c)) {
        at_ = end_of_name(text_, at_);
        token.text = text_.substr(begin, at_ - begin);
        token.kind = is_digit(c) ? TokenKind::number : TokenKind::name;
        if (token.kind == TokenKind::number) {
            const auto value = parse_index(token.text);
            if (!value) {
                fail(token.column, "'" + printable(token.text) + "' is not a 64-bit number");
            }
            token.number = *value;
        }
        return token;
    }
    for (const std::string_view mark : kMarks) {
        if (text_.substr(at_).starts_with(mark)) {
            token.kind = TokenKind::mark;
            token.text = mark;
            at_ += mark.size();
            return token;
        }
    }
    fail(token.column, "'" + printable(text_.substr(at_, 1)) + "' does not belong here");
}

const Token& Scanner::peek() {
    if (next_from_ != at_) {
        const std::size_t here = at_;
        next_ = scan();
        next_end_ = std::exchange(at_, here);
        next_from_ = here;
    }
    return next_;
}

Token Scanner::take() {
    Token token = peek();
    at_ = next_end_;
    return token;
}

bool Scanner::accept(TokenKind kind, std::string_view text) {
    const bool is_it = peek().is(kind, text);
    at_ = is_it ? next_end_ : at_;
    return is_it;
}

bool Scanner::accept_mark(std::string_view mark) {
    return accept(TokenKind::mark, mark);
}

bool Scanner::accept_name(std::string_view name) {
    return accept(TokenKind::name, name);
}

void Scanner::expect_mark(std::string_view mark) {
    if (!accept_mark(mark)) {
        fail_expected("'" + std::string(mark) + "'");
    }
}

void Scanner::expect_name(std::string_view name) {
    if (!accept_name(name)) {
        fail_expected("'" + std::string(name) + "'");
    }
}

std::string Scanner::take(TokenKind kind, std::string_view what) {
    if (peek().kind != kind) {
        fail_expected(what);
    }
    return take().text;
}

std::string Scanner::name(std::string_view what) {
    return take(TokenKind::name, what);
}

std::string Scanner::quoted(std::string_view what) {
    return take(TokenKind::text, what);
}

Index Scanner::number(std::string_view what) {
    const bool is_negative = accept_mark("-");
    if (peek().kind != TokenKind::number) {
        fail_expected(what);
    }
    const Index value = take().number;
    return is_negative ? -value : value;
}

std::string Scanner::word(std::string_view what) {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_blank(text_[at_])) {
        ++at_;
    }
    if (at_ == begin) {
        fail(begin + 1, "expected " + std::string(what) + ", found the end");
    }
    return std::string(text_.substr(begin, at_ - begin));
}

std::string Scanner::until(std::span<const std::string_view> stops) {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '<') {
        const std::size_t end = end_of_name(text_, at_);
        if (contains(stops, text_.substr(at_, end - at_))) {
            break;
        }
        at_ = std::max(end, at_ + 1);
    }
    return between(begin, at_);
}

std::string Scanner::between(std::size_t from, std::size_t to) const {
    return std::string(trim(text_.substr(from, to - from)));
}

std::size_t Scanner::position() {
    skip_blanks();
    return at_;
}

bool Scanner::at_end() {
    return position() == text_.size();
}

bool Scanner::next_is(char c) {
    return !at_end() && text_[at_] == c;
}

void Scanner::expect_end() {
    if (!at_end()) {
        fail_expected("the end of the line");
    }
}

}  // namespace shardweld::models

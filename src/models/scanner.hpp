// One statement's text as tokens or raw words, with columns for messages.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/index.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

enum class TokenKind { end, number, name, field, claim, text, mark };

/// A piece of an expression. `text` is without the marks '@', '$' and the quotes.
struct Token {
    TokenKind kind = TokenKind::end;
    std::string text;
    Index number = 0;
    std::size_t column = 1;

    [[nodiscard]] bool is(TokenKind wanted, std::string_view wanted_text) const {
        return kind == wanted && text == wanted_text;
    }
};

/// Reads one line from left to right.
class Scanner {
  public:
    /// `origin`: "llama.recipe:24". The text must outlive the scanner.
    Scanner(std::string_view text, std::string origin) : text_(text), origin_(std::move(origin)) {}

    [[nodiscard]] const std::string& origin() const { return origin_; }
    /// The next token without taking it; Error(usage) for a character no token begins with.
    [[nodiscard]] const Token& peek();
    Token take();
    /// Takes the next token when it is this mark or this name.
    bool accept_mark(std::string_view mark);
    bool accept_name(std::string_view name);
    void expect_mark(std::string_view mark);
    void expect_name(std::string_view name);
    /// The value of the name that comes next; Error(usage) "expected WHAT, found ..." for others.
    template <typename T>
    T one_of(std::initializer_list<std::pair<std::string_view, T>> names, std::string_view what) {
        for (const auto& [name, value] : names) {
            if (accept_name(name)) {
                return value;
            }
        }
        fail_expected(what);
    }
    /// A name; Error(usage) "expected WHAT, found ..." otherwise.
    std::string name(std::string_view what);
    Index number(std::string_view what);

    /// The next run of non-blanks, taken; Error(usage) "expected WHAT, found the end".
    std::string word(std::string_view what);
    /// A text in quotes, without them; Error(usage) "expected WHAT, found ..." otherwise.
    std::string quoted(std::string_view what);
    /// Raw text up to the first '<', or up to the first of `stops` that stands as a word of its
    /// own; taken, blanks around it removed.
    std::string until(std::span<const std::string_view> stops);
    /// The text taken between two positions, blanks around it removed.
    [[nodiscard]] std::string between(std::size_t from, std::size_t to) const;
    [[nodiscard]] std::size_t position();
    [[nodiscard]] bool at_end();
    /// Whether the next non-blank is this character.
    [[nodiscard]] bool next_is(char c);
    /// Error(usage) when something is left.
    void expect_end();

    /// Error(usage): "llama.recipe:24: column 9: WHAT".
    [[noreturn]] void fail(std::size_t column, const std::string& what) const;
    /// Error(usage): "...: expected WHAT, found 'x'", at the next token.
    [[noreturn]] void fail_expected(std::string_view what);

  private:
    void skip_blanks();
    bool accept(TokenKind kind, std::string_view text);
    std::string take(TokenKind kind, std::string_view what);
    Token scan();
    void scan_path(Token& token);

    std::string_view text_;
    std::string origin_;
    std::size_t at_ = 0;
    // The token that was looked at last, for each of many questions about it.
    Token next_;
    std::size_t next_from_ = std::string_view::npos;
    std::size_t next_end_ = 0;
};

/// Runs a parser that knows no file; its message gets the place in front.
template <typename Parse>
auto at_origin(const std::string& origin, const Parse& parse) {
    try {
        return parse();
    } catch (const Error& error) {
        throw Error(error.code(), (origin.empty() ? "" : origin + ": ") + error.what(),
                    error.hint());
    }
}

/// Letters, digits and '_', beginning with no digit.
bool is_name(std::string_view text);

}  // namespace shardweld::models

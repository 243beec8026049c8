// Texts that are made by the hundred thousand and are few: each is kept once.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>

namespace shardweld {

/// A text of which the process keeps one copy until it ends, however often it is made: the name of
/// a tensor that thousands of files repeat. Copied, hashed and held against another for equality as
/// an address; ordered as a text. Made by any thread.
class SharedText {
  public:
    SharedText() : SharedText(std::string_view()) {}
    SharedText(std::string_view text);   // NOLINT(google-explicit-constructor): it is a text
    SharedText(const std::string& text)  // NOLINT(google-explicit-constructor)
        : SharedText(std::string_view{text}) {}
    SharedText(const char* text)  // NOLINT(google-explicit-constructor)
        : SharedText(std::string_view(text)) {}

    [[nodiscard]] const std::string& text() const { return *text_; }
    [[nodiscard]] bool empty() const { return text_->empty(); }
    operator const std::string&() const { return *text_; }  // NOLINT(google-explicit-constructor)
    operator std::string_view() const { return *text_; }    // NOLINT(google-explicit-constructor)

    friend bool operator==(SharedText a, SharedText b) { return a.text_ == b.text_; }
    friend std::strong_ordering operator<=>(SharedText a, SharedText b) {
        return a.text_ == b.text_ ? std::strong_ordering::equal : *a.text_ <=> *b.text_;
    }

  private:
    friend struct std::hash<SharedText>;

    const std::string* text_;
};

}  // namespace shardweld

template <>
struct std::hash<shardweld::SharedText> {
    std::size_t operator()(shardweld::SharedText text) const noexcept {
        return std::hash<const std::string*>()(text.text_);
    }
};

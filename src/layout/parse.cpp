// From layout text to its tree, and the checks that need no extents.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "expression.hpp"
#include "segments.hpp"

namespace shardweld::layout {

namespace {

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxNesting = 16;

[[noreturn]] void fail(std::string_view text, std::size_t column, const std::string& what) {
    throw Error(ErrorCode::usage, "layout \"" + printable(text) + "\": column " +
                                      std::to_string(column) + ": " + what);
}

/// A name, or one of the characters ()[]:|*; empty at the end.
struct LayoutToken {
    std::string_view text;
    std::size_t column = 0;

    [[nodiscard]] bool is(std::string_view expected) const { return text == expected; }
    [[nodiscard]] bool is_name() const { return !text.empty() && is_name_start(text[0]); }
    [[nodiscard]] std::string found() const {
        return text.empty() ? "found the end" : "found '" + std::string(text) + "'";
    }
};

std::vector<LayoutToken> tokens_of(std::string_view text) {
    std::vector<LayoutToken> tokens;
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t end = at + 1;
        if (is_name_start(text[at])) {
            end = static_cast<std::size_t>(
                std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(),
                                 is_name_part) -
                text.begin());
        } else if (text[at] == ' ' || text[at] == '\t') {
            ++at;
            continue;
        } else if (std::string_view("()[]:|*").find(text[at]) == std::string_view::npos) {
            fail(text, at + 1,
                 "'" + printable(text.substr(at, 1)) +
                     "' does not belong in a layout; names are letters, digits and _, beginning "
                     "with no digit");
        }
        tokens.push_back({text.substr(at, end - at), at + 1});
        at = end;
    }
    tokens.push_back({{}, text.size() + 1});
    return tokens;
}

class LayoutParser {
  public:
    explicit LayoutParser(std::string_view text) : text_(text), tokens_(tokens_of(text)) {}

    Layout layout() {
        Layout out;
        out.text = std::string(text_);
        if (peek().is_name() && tokens_[1].is(":")) {
            out.label = std::string(take().text);
            take();
        }
        while (!peek().text.empty()) {
            limit(out.dims.size(), peek(), "dims");
            out.dims.push_back(dim());
        }
        if (out.dims.empty()) {
            fail(text_, peek().column, "expected at least one dim, found the end");
        }
        return out;
    }

  private:
    [[nodiscard]] const LayoutToken& peek() const { return tokens_[at_]; }
    const LayoutToken& take() { return tokens_[at_++]; }

    void expect(std::string_view what) {
        if (!peek().is(what)) {
            fail(text_, peek().column, "expected '" + std::string(what) + "', " + peek().found());
        }
        take();
    }

    void limit(std::size_t count, const LayoutToken& token, const std::string& what) const {
        if (count >= kMaxAxes) {
            fail(text_, token.column,
                 "more than " + std::to_string(kMaxAxes) + " " + what + ", the most there may be");
        }
    }

    Dim dim() {
        if (!peek().is("(")) {
            return {item("a name, '*', '(' or '['")};
        }
        take();
        Dim items = items_until(")", "a name, '*', '[' or ')'");
        expect(")");
        return items;
    }

    std::vector<LayoutItem> items_until(std::string_view stops, const std::string& expected) {
        std::vector<LayoutItem> items;
        while (peek().text.empty() || !has_part(stops, peek().text)) {
            limit(items.size(), peek(), "factors in one product");
            items.push_back(item(expected));
        }
        return items;
    }

    LayoutItem item(const std::string& expected) {
        const LayoutToken& token = peek();
        if (token.is("[")) {
            return sum();
        }
        if (!token.is_name() && !token.is("*")) {
            fail(text_, token.column, "expected " + expected + ", " + token.found());
        }
        if (token.is("*") && std::exchange(has_star_, true)) {
            fail(text_, token.column, "a second '*'; only one extent can be solved from a shape");
        }
        take();
        return {std::string(token.text), {}, token.column};
    }

    LayoutItem sum() {
        LayoutItem out;
        out.column = peek().column;
        if (++nesting_ > kMaxNesting) {
            fail(text_, out.column, "sums nested deeper than " + std::to_string(kMaxNesting));
        }
        do {
            take();  // '[' or '|'
            const LayoutToken& label = peek();
            if (!label.is_name()) {
                fail(text_, label.column, "expected a segment's label, " + label.found());
            }
            take();
            expect(":");
            out.segments.push_back({std::string(label.text),
                                    items_until("|]", "a name, '*', '[', '|' or ']'"),
                                    label.column});
        } while (peek().is("|"));
        expect("]");
        --nesting_;
        return out;
    }

    std::string_view text_;
    std::vector<LayoutToken> tokens_;
    std::size_t at_ = 0;
    std::size_t nesting_ = 0;
    bool has_star_ = false;
};

std::string quoted_segment(const std::string& label) {
    return label.empty() ? "the layout" : "segment \"" + label + "\"";
}

void check_axes(const Layout& layout, const SegmentPath& path) {
    std::set<std::string_view> seen;
    for (const LayoutItem* axis : path.axes) {
        if (!seen.insert(axis->name).second) {
            fail(layout.text, axis->column,
                 "axis '" + axis->name + "' a second time on the way to " +
                     quoted_segment(path.label) + "; every axis of a segment needs its own name");
        }
    }
    if (path.axes.size() > kMaxAxes) {
        fail(layout.text, path.axes[kMaxAxes]->column,
             quoted_segment(path.label) + " has more than " + std::to_string(kMaxAxes) +
                 " axes, the most there may be");
    }
}

void check_segments(const Layout& layout) {
    std::set<std::string> labels;
    for_each_segment(layout, [&](const SegmentPath& path) {
        if (!labels.insert(path.label).second) {
            fail(layout.text, path.column,
                 "a second segment \"" + path.label + "\"; every segment needs its own label");
        }
        check_axes(layout, path);
    });
}

}  // namespace

Layout parse_layout(std::string_view text) {
    if (text.size() > kMaxText) {
        fail(text, kMaxText + 1, "longer than " + std::to_string(kMaxText) + " characters");
    }
    Layout layout = LayoutParser(text).layout();
    check_segments(layout);
    return layout;
}

std::vector<SegmentAxes> segments_of(const Layout& layout) {
    std::vector<SegmentAxes> segments;
    for_each_segment(layout, [&](const SegmentPath& path) {
        SegmentAxes segment{path.label, {}};
        for (const LayoutItem* axis : path.axes) {
            segment.axes.push_back(axis->name);
        }
        std::ranges::sort(segment.axes);
        segments.push_back(std::move(segment));
    });
    return segments;
}

Layout with_leading_axis(const Layout& layout, const std::string& axis) {
    // Text first: the result is what a rule's author would have written, and is checked as such.
    const std::size_t label_end = layout.label.empty() ? 0 : layout.text.find(':') + 1;
    const std::string_view text = layout.text;
    const std::string label = layout.label.empty() ? "" : layout.label + ": ";
    return parse_layout(label + axis + " " + std::string(trim(text.substr(label_end))));
}

}  // namespace shardweld::layout

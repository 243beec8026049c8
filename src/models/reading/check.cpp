// Checks of files against each other, made once when they are loaded.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "models/expr.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

#include "declaration.hpp"

namespace shardweld::models {

namespace {

using Axes = std::set<std::string>;
using SegmentName = std::pair<std::string, std::string>;

std::string text_of(const Axes& axes) {
    const std::string text = joined(axes, " ");
    return text.empty() ? "none" : text;
}

/// The axes of a segment of a line: those of its layout, fused, but for one that counts copies, and
/// the captures of the name.
Axes axes_of(const layout::SegmentAxes& segment, const Line& line, const Dialect& dialect) {
    Axes axes(segment.axes.begin(), segment.axes.end());
    axes.insert(line.name.captures.begin(), line.name.captures.end());
    for (const auto& [axis, parts] : dialect.fuse) {
        const bool has_all = std::ranges::all_of(
            parts, [&](const std::string& part) { return axes.contains(part); });
        if (has_all) {
            for (const std::string& part : parts) {
                axes.erase(part);
            }
            axes.insert(axis);
        }
    }
    axes.erase(line.repeat);
    return axes;
}

std::string segment_text(const SegmentName& name) {
    return name.second.empty() ? name.first : name.first + "[" + name.second + "]";
}

class Meeting {
  public:
    Meeting(const Recipe& recipe, const Dialect& dialect)
        : recipe_(recipe), dialect_(dialect), symbols_(nothing_known(recipe, dialect)) {}

    void check() {
        for (const auto& [name, definition] : recipe_.symbols) {
            for (const ExprPtr& alternative : definition.alternatives) {
                check_names(alternative, {}, definition.origin);
            }
        }
        for (const Line& line : dialect_.store) {
            check_names(line.condition, line.name.captures, line.origin);
            check_names(line.below, line.name.captures, line.origin);
            if (can_hold(line)) {
                file(line);
            }
        }
        for (const AliasRule& rule : dialect_.aliases) {
            check_names(rule.condition, rule.from.captures, rule.origin);
        }
        for (const auto* lines : {&recipe_.hub, &recipe_.module}) {
            for (const Line& line : *lines) {
                check_line(line);
                if (can_hold(line)) {
                    check_stored(line);
                    file(line);
                }
            }
        }
        for (const SameRule& rule : recipe_.same) {
            check_names(rule.condition, {}, rule.origin);
        }
        for (const NamesRule& rule : recipe_.needs) {
            check_names(rule.condition, {}, recipe_.origin);
        }
        for (const RefuseRule& rule : dialect_.refusals) {
            check_names(rule.condition, {}, rule.origin);
        }
    }

  private:
    /// All facts, givens and fields are unknown, but not undefined.
    static Scope nothing_known(const Recipe& recipe, const Dialect& dialect) {
        Scope scope(recipe, dialect);
        for (const auto* names : {&dialect.facts, &recipe.givens}) {
            for (const std::string& name : *names) {
                scope.known.emplace(name, std::nullopt);
            }
        }
        return scope;
    }

    void check_name(const std::string& name, std::span<const std::string> captures,
                    const std::string& origin) const {
        if (!symbols_.defines(name) && !contains(captures, name)) {
            throw Error(ErrorCode::usage, origin + ": recipe " + recipe_.name + " with dialect " +
                                              dialect_.name + " does not define '" + name + "'");
        }
    }

    void check_names(const ExprPtr& expr, std::span<const std::string> captures,
                     const std::string& origin) const {
        for_each_node(expr, [&](const Expr& node) {
            if (node.op == Op::name) {
                check_name(node.name, captures, origin);
            }
        });
    }

    void check_line(const Line& line) const {
        check_names(line.condition, line.name.captures, line.origin);
        for (const std::size_t i : indices(line.name.captures)) {
            if (!symbols_.is_index(line.name.captures[i])) {
                throw Error(ErrorCode::usage, line.origin + ": recipe " + recipe_.name +
                                                  " has no 'index " + line.name.captures[i] +
                                                  "', which the name counts by");
            }
            if (!line.name.plus[i].empty()) {
                check_name(line.name.plus[i], {}, line.origin);
            }
        }
        for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
            for (const std::string& axis : segment.axes) {
                if (axis == "*") {
                    throw Error(ErrorCode::usage,
                                line.origin + ": a name that is written can have no extent '*'");
                }
                check_name(axis, {}, line.origin);
            }
        }
    }

    void check_stored(const Line& line) const {
        for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
            const SegmentName name(line.logical, segment.label);
            if (!seen_.contains(name)) {
                throw Error(ErrorCode::usage, line.origin + ": dialect " + dialect_.name +
                                                  " stores no " + segment_text(name));
            }
        }
    }

    /// Whether some config can switch the line on.
    [[nodiscard]] bool can_hold(const Line& line) const {
        return line.condition == nullptr || symbols_.constant_of(line.condition).value_or(1) != 0;
    }

    /// Remembers the axes of a line's segments, or compares them with those of an earlier line.
    void file(const Line& line) {
        for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
            const SegmentName name(line.logical, segment.label);
            const Axes axes = axes_of(segment, line, dialect_);
            const auto [first, is_new] = seen_.try_emplace(name, axes, line.origin);
            if (!is_new && first->second.first != axes) {
                throw Error(ErrorCode::usage, line.origin + ": " + segment_text(name) +
                                                  " has the axes " + text_of(axes) + ", but " +
                                                  text_of(first->second.first) + " in " +
                                                  first->second.second);
            }
        }
    }

    const Recipe& recipe_;
    const Dialect& dialect_;
    Symbols symbols_;
    std::map<SegmentName, std::pair<Axes, std::string>> seen_;
};

}  // namespace

void check_lines(const std::vector<Line>& lines) {
    for (const Line& line : lines) {
        const auto& captures = line.name.captures;
        for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
            const auto twice = std::find_first_of(segment.axes.begin(), segment.axes.end(),
                                                  captures.begin(), captures.end());
            if (twice != segment.axes.end()) {
                throw Error(ErrorCode::usage, line.origin + ": axis '" + *twice +
                                                  "' is a capture of the name already");
            }
        }
    }
}

void check_meeting(const Recipe& recipe, const Dialect& dialect) {
    Meeting(recipe, dialect).check();
}

}  // namespace shardweld::models

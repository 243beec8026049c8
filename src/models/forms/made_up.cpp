#include "made_up.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "core/lists.hpp"
#include "models/expr.hpp"

namespace shardweld::models {

namespace {

/// Before the names of the items it fills up: the axis stands where '*' does in the order of axes,
/// so that padding meets padding.
constexpr const char* kPad = "*_";
constexpr const char* kTwice = "twice";

/// The name of the axis that stands for a padding's '*' beside these items; the symbol is added.
std::string padding_axis(const Line& line, const layout::Segment& model,
                         std::optional<Index> rows_there, Recipe& made) {
    std::string name = kPad;
    ExprPtr rows = number(1);
    for (const layout::LayoutItem& item : model.items) {
        name += item.name;
        rows = make_expr(Op::multiply, {rows, name_of(item.name)});
    }
    const ExprPtr unit = line.below == nullptr ? number(1) : line.below;
    const ExprPtr fill = make_expr(Op::remainder, {make_expr(Op::negate, {rows}), unit});
    Definition definition;
    definition.origin = line.origin;
    definition.alternatives = {
        rows_there ? number(*rows_there)
                   : as_root(fill, "-" + model.items[0].name + " % " + unit->text, line.origin)};
    made.symbols.emplace(name, std::move(definition));
    return name;
}

void fill_up_item(layout::LayoutItem& item, const Line& line, std::optional<Index> rows,
                  Recipe& made) {
    for (layout::Segment& segment : item.segments) {
        if (segment.items.size() == 1 && segment.items[0].name == "*") {
            segment.items[0].name = padding_axis(line, item.segments.front(), rows, made);
        }
    }
}

/// Whether a segment of the item, which is the line's, is the one that is written twice.
bool write_item_twice(layout::LayoutItem& item, Line& line, Recipe& made) {
    for (std::size_t at = 1; at < item.segments.size(); ++at) {
        layout::Segment& before = item.segments[at - 1];
        const auto is_dropped = contains(line.drop, item.segments[at].label);
        if (is_dropped && before.label == line.drop_as) {
            before.items.insert(before.items.begin(), layout::LayoutItem{kTwice, {}, 0});
            line.drop.change([&](auto& drop) { std::erase(drop, item.segments[at].label); });
            item.segments.erase(item.segments.begin() + static_cast<std::ptrdiff_t>(at));
            line.repeat = kTwice;
            made.symbols[kTwice] = {{number(2)}, line.origin, false};
            return true;
        }
    }
    return false;
}

}  // namespace

void fill_up(Line& line, std::optional<Index> rows, Recipe& made) {
    for (layout::Dim& dim : line.layout.dims.own()) {
        for (layout::LayoutItem& item : dim) {
            fill_up_item(item, line, rows, made);
        }
    }
}

void write_twice(Line& line, Recipe& made) {
    for (layout::Dim& dim : line.layout.dims.own()) {
        for (layout::LayoutItem& item : dim) {
            if (write_item_twice(item, line, made)) {
                return;
            }
        }
    }
}

bool is_filled(const Line& line) {
    return line.drop_as == "0" && labels_of(line).size() == line.drop.size();
}

}  // namespace shardweld::models

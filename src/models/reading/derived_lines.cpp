// Lines that are made from a recipe's: the stored names of checkpoints that have the recipe's own,
// and those of a LoRA adapter's factors, made from the lines of the weights that they change.
#include <set>
#include <utility>

#include "core/lists.hpp"
#include "models/expr.hpp"
#include "models/recipe.hpp"

#include "lora_products.hpp"

namespace shardweld::models {

namespace {

/// A copy that must equal another tensor is stored although it is not written.
ExprPtr stored_when(const Line& line, const Recipe& recipe) {
    ExprPtr condition = line.condition;
    for (const SameRule& rule : recipe.same) {
        if (rule.a != line.logical || condition == nullptr) {
            continue;
        }
        condition = rule.condition == nullptr
                        ? nullptr
                        : as_root(make_expr(Op::either, {condition, rule.condition}),
                                  condition->text + " or " + rule.condition->text, line.origin);
    }
    return condition;
}

Line stored_form(const Line& line, const Recipe& recipe) {
    Line stored = line;
    stored.condition = stored_when(line, recipe);
    stored.add = 0;
    stored.join = Join{};
    stored.join->by_shape = true;
    return stored;
}

}  // namespace

std::vector<std::string> labels_of(const Line& line) {
    return collect_list(layout::segments_of(line.layout), &layout::SegmentAxes::label);
}

Dialect own_names(const Recipe& recipe, Dialect dialect) {
    if (!dialect.has_own_names) {
        return dialect;
    }
    std::set<std::string> names;
    for (const Line& line : recipe.module) {
        names.insert(line.name.text);
        dialect.store.push_back(stored_form(line, recipe));
    }
    for (const Line& line : recipe.hub) {
        if (!names.contains(line.name.text)) {
            dialect.store.push_back(stored_form(line, recipe));
        }
    }
    return dialect;
}

namespace {

constexpr std::string_view kWeight = ".weight";
constexpr const char* kRank = "lora_rank";

using layout::Dim;
using Dims = std::vector<Dim>;

/// A weight of two dims behind those of stacks.
bool is_matrix(const Line& line) {
    return line.name.text.ends_with(kWeight) && line.layout.dims.size() >= 2 &&
           !(line.join && line.join->flat);
}

std::string stem_of(const Line& line) {
    return line.name.text.substr(0, line.name.text.size() - kWeight.size());
}

Dim rank_dim() {
    return {layout::LayoutItem{kRank, {}, 0}};
}

std::string with_label(const std::string& name, const std::string& label) {
    std::string text = name;
    text.replace(text.find('*'), 1, label);
    return text;
}

/// The rows of one segment in the order in which they stand among the others'. False: it has none.
bool take_rows(const std::vector<layout::LayoutItem>& items, const std::string& label, Dim& rows) {
    bool is_found = false;
    for (const layout::LayoutItem& item : items) {
        if (item.segments.empty()) {
            rows.push_back(item);
        }
        for (const layout::Segment& segment : item.segments) {
            Dim own;
            if (take_rows(segment.items, label, own) || segment.label == label) {
                is_found = true;
                append_all(rows, std::move(own));
            }
        }
    }
    return is_found;
}

Dim rows_of(const Line& weight, const std::string& label) {
    Dim rows;
    take_rows(weight.layout.dims[weight.layout.dims.size() - 2], label, rows);
    return rows;
}

/// Labels of the segments that rows are made of; none where columns are cut, or nothing is.
std::vector<std::string> labels_of_rows(const Line& weight) {
    const Dim& rows = weight.layout.dims[weight.layout.dims.size() - 2];
    std::vector<std::string> labels;
    if (!weight.repeat.empty()) {
        return labels;  // rows of several segments stand several times
    }
    for (const layout::SegmentAxes& segment : layout::segments_of({"", {rows}, ""})) {
        if (!segment.label.empty() && !contains(weight.drop, segment.label)) {
            labels.push_back(segment.label);
        }
    }
    return labels.size() < 2 ? std::vector<std::string>() : labels;
}

/// Rows without those that fill up a vocabulary, of which no config tells how many there are.
Dim without_filling(const Line& weight, Dim rows) {
    for (layout::LayoutItem& item : rows) {
        std::erase_if(item.segments, [&](const layout::Segment& segment) {
            return weight.drop_as.empty() && contains(weight.drop, segment.label);
        });
    }
    return rows;
}

/// Whichever dim of the weight tensor-parallel ranks share, they share B by rows; A by its own rows
/// where they share the weight's, else by columns.
std::optional<Join> join_of_factor(const Line& weight, bool is_up) {
    if (!weight.join) {
        return std::nullopt;
    }
    Join join = *weight.join;
    const int rows = static_cast<int>(weight.layout.dims.size()) - 2;
    for (JoinStep& step : join.steps) {
        step.dim = is_up ? rows : step.dim;
    }
    return join;
}

/// What of the weight's holds for it, too. It is a tensor of its own, called as its name is.
Line line_of(const Line& weight, const std::string& name, Dim rows, Dim columns) {
    Line line;
    line.name = Pattern::parse(name);
    line.logical = name;
    Dims dims(weight.layout.dims.begin(), weight.layout.dims.end() - 2);
    dims.push_back(std::move(rows));
    dims.push_back(std::move(columns));
    line.layout.dims = std::move(dims);
    line.layout.text = weight.layout.text;
    line.condition = weight.condition;
    line.origin = weight.origin;
    return line;
}

/// Makes the lines of the factors.
class FactorLines {
  public:
    FactorLines(LoraNames names, LoraForm& form) : names_(std::move(names)), form_(form) {}

    void add(const Line& weight) {
        const std::string stem = stem_of(weight);
        const Dim& rows = weight.layout.dims[weight.layout.dims.size() - 2];
        const bool is_again = !weight.repeat.empty() && weight.is_read_only;
        add_line(line_of(weight, stem + names_.up, rows, rank_dim()), weight, true, is_again);
        if (is_again) {
            return;  // the same weight otherwise stored: A does not show it
        }
        add_line(line_of(weight, stem + names_.down, rank_dim(), weight.layout.dims.back()), weight,
                 false, false);
        const std::vector<std::string> labels = labels_of_rows(weight);
        if (!labels.empty()) {
            form_.shared.push_back({Pattern::parse(stem + names_.down), labels, weight.condition});
        }
        for (const std::string& label : labels) {
            add_line(line_of(weight, stem + with_label(names_.part_down, label), rank_dim(),
                             weight.layout.dims.back()),
                     weight, false, false);
            add_line(line_of(weight, stem + with_label(names_.part_up, label),
                             rows_of(weight, label), rank_dim()),
                     weight, true, false);
        }
    }

  private:
    void add_line(Line line, const Line& weight, bool is_up, bool is_again) {
        if (!is_again) {
            Line whole = line;
            whole.optional = true;
            Dim& rows = whole.layout.dims.own()[whole.layout.dims.size() - 2];
            rows = is_up ? without_filling(weight, std::move(rows)) : std::move(rows);
            form_.recipe.hub.push_back(std::move(whole));
        }
        line.join = join_of_factor(weight, is_up);
        line.repeat = is_again ? weight.repeat : "";
        line.drop = is_up && weight.drop_as.empty() ? weight.drop : SharedList<std::string>();
        form_.dialect.store.push_back(std::move(line));
    }

    LoraNames names_;
    LoraForm& form_;
};

}  // namespace

LoraForm lora_form(const Recipe& recipe, const Dialect& dialect) {
    LoraForm form{recipe, dialect, {}};
    form.recipe.hub = {};
    form.recipe.same = {};
    form.dialect.store = {};
    FactorLines factors(dialect.lora.value(), form);
    for (const Line& weight : dialect.store) {
        if (is_matrix(weight)) {
            factors.add(weight);
        }
    }
    return form;
}

Dialect lora_products(const Dialect& dialect) {
    Dialect products = dialect;
    for (const Line& weight : dialect.store) {
        for (const std::string& label :
             is_matrix(weight) ? labels_of_rows(weight) : std::vector<std::string>()) {
            Line& product = products.store.emplace_back(
                line_of(weight, stem_of(weight) + with_label(dialect.lora.value().part_down, label),
                        rows_of(weight, label), weight.layout.dims.back()));
            product.logical = weight.logical;
            product.layout.label = label;
        }
    }
    return products;
}

}  // namespace shardweld::models

// Lines that are made from a recipe's: the stored names of checkpoints that have the recipe's own,
// and those of a LoRA adapter's factors, made from the lines of the weights that they change.
#include <algorithm>
#include <set>
#include <utility>

#include "expr.hpp"
#include "recipe.hpp"

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
    std::vector<std::string> labels;
    for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
        labels.push_back(segment.label);
    }
    return labels;
}

Dialect own_names(const Recipe& recipe, const Dialect& dialect) {
    Dialect own = dialect;
    if (!dialect.has_own_names) {
        return own;
    }
    std::set<std::string> names;
    for (const Line& line : recipe.module) {
        names.insert(line.name.text);
        own.store.push_back(stored_form(line, recipe));
    }
    for (const Line& line : recipe.hub) {
        if (!names.contains(line.name.text)) {
            own.store.push_back(stored_form(line, recipe));
        }
    }
    return own;
}

namespace {

constexpr std::string_view kWeight = ".weight";
constexpr const char* kRank = "lora_rank";
constexpr const char* kUp = ".lora_up";
constexpr const char* kDown = ".lora_down";

using Dims = std::vector<layout::Dim>;

/// A weight of two dims behind those of stacks; of a layer, or of an expert in a layer.
bool is_matrix(const Line& line) {
    constexpr std::size_t kMostCaptures = 2;
    return line.name.text.ends_with(kWeight) && line.layout.dims.size() >= 2 && line.drop.empty() &&
           line.name.captures.size() <= kMostCaptures && !(line.join && line.join->flat);
}

const layout::Dim& rows_of(const Line& line) {
    return line.layout.dims[line.layout.dims.size() - 2];
}

std::string stem_of(const Line& line) {
    return line.name.text.substr(0, line.name.text.size() - kWeight.size());
}

layout::Dim rank_dim() {
    return {layout::LayoutItem{kRank, {}, 0}};
}

std::string with_label(const std::string& name, const std::string& label) {
    std::string text = name;
    text.replace(text.find('*'), 1, label);
    return text;
}

std::string down_of(const std::string& logical, const std::string& label) {
    return logical + kDown + (label.empty() ? "" : "." + label);
}

/// The line of a factor: what of the weight's holds for it, too.
Line factor_line(const Line& weight, const std::string& name, std::string logical, Dims dims,
                 std::string label = "") {
    Line line;
    line.name = Pattern::parse(name);
    line.logical = std::move(logical);
    line.layout = {std::move(label), std::move(dims), weight.layout.text};
    line.condition = weight.condition;
    line.origin = weight.origin;
    return line;
}

/// The dims in front of rows and columns (stacked layers), and two more.
Dims dims_of(const Line& weight, layout::Dim rows, layout::Dim columns) {
    Dims dims(weight.layout.dims.begin(), weight.layout.dims.end() - 2);
    dims.push_back(std::move(rows));
    dims.push_back(std::move(columns));
    return dims;
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

std::vector<Line> hub_lines(const Recipe& recipe) {
    std::vector<Line> lines;
    for (const Line& weight : recipe.hub) {
        if (!is_matrix(weight) || weight.layout.dims.size() != 2) {
            continue;
        }
        const std::string& label = weight.layout.label;
        lines.push_back(factor_line(weight, stem_of(weight) + ".lora_A.weight",
                                    down_of(weight.logical, label),
                                    {rank_dim(), weight.layout.dims[1]}));
        lines.push_back(factor_line(weight, stem_of(weight) + ".lora_B.weight",
                                    weight.logical + kUp, {weight.layout.dims[0], rank_dim()},
                                    label));
        lines.back().optional = true;
        lines[lines.size() - 2].optional = true;
    }
    return lines;
}

/// Makes the stored lines; `recipe` knows the segments' rows when they stand alone.
class StoredFactors {
  public:
    StoredFactors(const Recipe& recipe, LoraNames names, LoraForm& form)
        : recipe_(recipe), names_(std::move(names)), form_(form) {}

    void add(const Line& weight) {
        const std::string stem = stem_of(weight);
        Line up = factor_line(weight, stem + names_.up, weight.logical + kUp,
                              dims_of(weight, rows_of(weight), rank_dim()), weight.layout.label);
        up.repeat = weight.repeat;
        put(std::move(up), weight, true);
        if (!weight.repeat.empty()) {
            return;  // the same weight otherwise stored: A does not show it
        }
        const std::vector<std::string> labels = labels_of(weight);
        const bool is_fused = labels != std::vector<std::string>{""};
        for (const std::string& label : labels) {
            const std::string end = is_fused ? with_label(names_.part_down, label) : names_.down;
            put(factor_line(weight, stem + end, down_of(weight.logical, label),
                            dims_of(weight, rank_dim(), weight.layout.dims.back())),
                weight, false);
        }
        if (is_fused) {
            form_.shared.push_back({Pattern::parse(stem + names_.down), labels, weight.condition});
            add_parts(weight, stem);
        }
    }

  private:
    void add_parts(const Line& weight, const std::string& stem) {
        std::set<std::string> done;
        for (const Line& hub : recipe_.hub) {
            const std::string& label = hub.layout.label;
            if (hub.logical == weight.logical && is_matrix(hub) && !label.empty() &&
                done.insert(label).second) {
                put(factor_line(weight, stem + with_label(names_.part_up, label),
                                weight.logical + kUp,
                                dims_of(weight, hub.layout.dims[0], rank_dim()), label),
                    weight, true);
            }
        }
    }

    void put(Line line, const Line& weight, bool is_up) {
        line.join = join_of_factor(weight, is_up);
        form_.dialect.store.push_back(std::move(line));
    }

    const Recipe& recipe_;
    LoraNames names_;
    LoraForm& form_;
};

}  // namespace

LoraForm lora_form(const Recipe& recipe, const Dialect& dialect) {
    LoraForm form{recipe, dialect, {}};
    form.recipe.hub = hub_lines(recipe);
    form.recipe.same = {};
    form.dialect.store = {};
    StoredFactors factors(recipe, dialect.lora.value(), form);
    for (const Line& weight : dialect.store) {
        if (is_matrix(weight)) {
            factors.add(weight);
        }
    }
    return form;
}

}  // namespace shardweld::models

#include "sized_lines.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "expr.hpp"
#include "pattern.hpp"

namespace shardweld::models {

namespace {

bool is_sized(const Recipe& recipe, const std::string& name) {
    auto* const found = find_value(recipe.symbols, name);
    return found != nullptr && found->alternatives.empty();
}

/// One logical tensor: "experts.3" of the lines of "experts.{l}".
struct SizedTensor {
    std::vector<const Line*> lines;
    Captures captures;                ///< those in the logical tensor's name
    std::map<std::string, Index> of;  ///< extents, as far as they are known
    std::vector<std::pair<const Line*, std::vector<Index>>> stored;
};

class SizedTensors {
  public:
    SizedTensors(const Recipe& recipe, const Symbols& symbols)
        : recipe_(recipe), symbols_(symbols) {
        for (const auto* lines : {&recipe.module, &recipe.hub}) {
            for (const Line& line : *lines) {
                by_logical_[line.logical].push_back(&line);
                by_digits_[digits_hidden(line.name)].push_back(&line);
            }
        }
    }

    void add(const ShapedName& tensor) {
        auto* const lines = find_value(by_digits_, digits_hidden(tensor.name));
        if (lines == nullptr) {
            return;
        }
        for (const Line* const line : *lines) {
            const auto captures = line->name.match(tensor.name);
            if (captures && line->layout.dims.size() == tensor.shape.size()) {
                add(*line, *captures, tensor);
                return;
            }
        }
    }

    /// Adds each tensor's lines and the symbols in them.
    void move_into(Recipe& made, bool is_for_hub) {
        for (auto& [logical, tensor] : tensors_) {
            if (!solve(logical, tensor)) {
                if (is_for_hub && std::ranges::none_of(tensor.stored, [&](const auto& one) {
                        return is_of_tree(*one.first);
                    })) {
                    continue;
                }
                refuse(logical, *tensor.stored.front().first, tensor.stored.front().second,
                       " does not tell how large its parts are");
            }
            for (const Line* const line : tensor.lines) {
                (is_of_tree(*line) ? made.module : made.hub)
                    .push_back(line_of(*line, logical, tensor, made));
            }
        }
    }

  private:
    [[nodiscard]] bool is_of_tree(const Line& line) const {
        return std::ranges::any_of(recipe_.module, [&](const Line& one) { return &one == &line; });
    }

    void add(const Line& line, const Captures& captures, const ShapedName& stored) {
        const Pattern name = Pattern::parse(line.logical);
        const std::string logical = format(name, captures, {});
        SizedTensor& tensor = tensors_[logical];
        tensor.lines = by_logical_.at(line.logical);
        for (const auto& [capture, value] : captures) {
            if (contains(name.captures, capture)) {
                tensor.captures[capture] = value;
            } else {
                Index& extent = tensor.of[capture];
                extent = std::max(extent, value + 1);
            }
        }
        if (std::ranges::none_of(tensor.stored, [&](const auto& one) {
                return one.first == &line && one.second == stored.shape;
            })) {
            tensor.stored.emplace_back(&line, stored.shape);
        }
    }

    /// A dim's extent as a sum: number + factor * unknown. nullopt: it has several unknown ones.
    struct Sum {
        Index number = 0;
        Index factor = 0;
        std::string unknown;
    };
    [[nodiscard]] std::optional<Sum> sum_of(const layout::Dim& items,
                                            const SizedTensor& tensor) const {
        Sum product{1, 0, {}};
        for (const layout::LayoutItem& item : items) {
            const auto factor = sum_of(item, tensor);
            if (!factor || (factor->factor != 0 && product.factor != 0)) {
                return std::nullopt;
            }
            const bool is_new = factor->factor != 0;
            product = {checked_mul(product.number, factor->number, item.name),
                       is_new ? checked_mul(product.number, factor->factor, item.name)
                              : checked_mul(product.factor, factor->number, item.name),
                       is_new ? factor->unknown : product.unknown};
        }
        return product;
    }
    [[nodiscard]] std::optional<Sum> sum_of(const layout::LayoutItem& item,
                                            const SizedTensor& tensor) const {
        if (item.segments.empty()) {
            auto* const known = find_value(tensor.of, item.name);
            if (known != nullptr) {
                return Sum{*known, 0, {}};
            }
            return is_sized(recipe_, item.name) ? Sum{0, 1, item.name}
                                                : Sum{symbols_.value(item.name), 0, {}};
        }
        Sum all;
        for (const layout::Segment& segment : item.segments) {
            const auto one = sum_of(segment.items, tensor);
            if (!one || (one->factor != 0 && all.factor != 0 && one->unknown != all.unknown)) {
                return std::nullopt;
            }
            all = {checked_add(all.number, one->number, segment.label),
                   checked_add(all.factor, one->factor, segment.label),
                   one->factor != 0 ? one->unknown : all.unknown};
        }
        return all;
    }

    /// Works the extents out dim by dim, as long as one more is told. Whether all are.
    bool solve(const std::string& logical, SizedTensor& tensor) const {
        bool is_solved = true;
        for (bool is_new = true; is_new;) {
            is_new = false;
            is_solved = true;
            for (const auto& [line, shape] : tensor.stored) {
                for (const std::size_t dim : indices(shape)) {
                    const auto sum = sum_of(line->layout.dims[dim], tensor);
                    is_solved = is_solved && sum && sum->factor == 0;
                    if (sum && sum->factor != 0) {
                        const Index left = shape[dim] - sum->number;
                        if (left < 0 || left % sum->factor != 0) {
                            refuse(logical, *line, shape, " does not divide as that says");
                        }
                        tensor.of[sum->unknown] = left / sum->factor;
                        is_new = true;
                    }
                }
            }
        }
        for (const Line* const line : tensor.lines) {
            for (const layout::SegmentAxes& segment : layout::segments_of(line->layout)) {
                for (const std::string& axis : segment.axes) {
                    is_solved = is_solved && (!is_sized(recipe_, axis) || tensor.of.contains(axis));
                }
            }
        }
        return is_solved;
    }

    [[noreturn]] void refuse(const std::string& logical, const Line& line,
                             const std::vector<Index>& shape, const char* why) const {
        throw Error(ErrorCode::mismatch,
                    "the recipe " + recipe_.name + " has " + line.layout.text + " for " +
                        line.name.text + ", and " + shape_text(shape) + why,
                    "--names module writes the tensors as they are stored")
            .set_detail(line.origin + ", " + logical);
    }

    /// A name of its own for each extent: "a96".
    std::string symbol_of(const std::string& name, const SizedTensor& tensor, Recipe& made) const {
        auto* const extent = find_value(tensor.of, name);
        if (!is_sized(recipe_, name) || extent == nullptr) {
            return name;
        }
        std::string symbol = name + std::to_string(*extent);
        made.symbols.try_emplace(
            symbol, Definition{{as_root(number(*extent), std::to_string(*extent), made.origin)},
                               made.origin,
                               true});
        return symbol;
    }

    void name_axes(layout::Dim& items, const SizedTensor& tensor, Recipe& made) const {
        for (layout::LayoutItem& item : items) {
            item.name = symbol_of(item.name, tensor, made);
            for (layout::Segment& segment : item.segments) {
                name_axes(segment.items, tensor, made);
            }
        }
    }

    Line line_of(const Line& line, const std::string& logical, const SizedTensor& tensor,
                 Recipe& made) const {
        Line own = line;
        std::string text = line.name.literals.front();
        for (const std::size_t i : indices(line.name.captures)) {
            const std::string& capture = line.name.captures[i];
            auto* const value = find_value(tensor.captures, capture);
            text += (value != nullptr ? std::to_string(*value)
                                      : "{" + symbol_of(capture, tensor, made) + "}") +
                    line.name.literals[i + 1];
        }
        own.name = Pattern::parse(text);
        own.logical = logical;
        for (layout::Dim& dim : own.layout.dims.own()) {
            name_axes(dim, tensor, made);
        }
        return own;
    }

    const Recipe& recipe_;
    const Symbols& symbols_;
    std::map<std::string, std::vector<const Line*>> by_logical_;
    std::map<std::string, std::vector<const Line*>> by_digits_;
    std::map<std::string, SizedTensor> tensors_;
};

}  // namespace

bool promises_tensors(const Recipe& recipe) {
    return !recipe.hub.empty() && std::ranges::none_of(recipe.symbols, [](const auto& symbol) {
        return symbol.second.alternatives.empty();
    });
}

Recipe sized_for(const Recipe& recipe, const Symbols& symbols,
                 const std::vector<ShapedName>& stored, bool is_for_hub) {
    SizedTensors tensors(recipe, symbols);
    std::ranges::for_each(stored, [&](const ShapedName& one) { tensors.add(one); });
    Recipe made = recipe;
    made.hub.clear();
    made.module.clear();
    tensors.move_into(made, is_for_hub);
    return made;
}

}  // namespace shardweld::models

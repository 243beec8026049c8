#include "stored_sizes.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "core/text.hpp"
#include "layout/expression.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

using layout::LayoutItem;
using models::Symbols;

constexpr const char* kPaddingAxis = "*";
constexpr std::size_t kMostFields = 16;
constexpr std::size_t kMostShapes = 4096;

void add_axes(const std::vector<LayoutItem>& items, std::set<std::string>& axes) {
    for (const LayoutItem& item : items) {
        if (item.segments.empty()) {
            axes.insert(item.name);
        }
        for (const layout::Segment& segment : item.segments) {
            add_axes(segment.items, axes);
        }
    }
}

/// The extent of a product of axes and sums; a '*' counts as nothing.
Index extent_of(const std::vector<LayoutItem>& items, const Symbols& symbols,
                const models::Captures& captures) {
    Index product = 1;
    for (const LayoutItem& item : items) {
        Index extent = 0;
        for (const layout::Segment& segment : item.segments) {
            extent = checked_add(extent, extent_of(segment.items, symbols, captures), "an extent");
        }
        if (item.segments.empty() && item.name != kPaddingAxis) {
            extent = symbols.value(item.name, captures);
        }
        product = checked_mul(product, extent, "an extent");
    }
    return product;
}

/// One extent of stored tensors, or how many there are of something that names count.
struct Size {
    enum class SizeRelation { equal, at_least, at_most };
    const layout::Dim* dim = nullptr;  ///< null: of the index
    std::string index = {};
    const models::Captures* captures = nullptr;
    Index stored = 0;
    SizeRelation relation = SizeRelation::equal;  ///< of what is stored to what config.json implies

    [[nodiscard]] std::set<std::string> symbols() const {
        std::set<std::string> names;
        if (dim == nullptr) {
            names.insert(index);
        } else {
            add_axes(*dim, names);
            names.erase(kPaddingAxis);
        }
        return names;
    }

    /// nullopt where a field is absent or does not divide.
    [[nodiscard]] std::optional<Index> implied(const Symbols& symbols) const {
        try {
            return dim == nullptr ? symbols.try_value(index)
                                  : std::optional(extent_of(*dim, symbols, *captures));
        } catch (const Error&) {
            return std::nullopt;
        }
    }

    [[nodiscard]] bool is_met(const Symbols& symbols) const {
        const std::optional<Index> by_config = implied(symbols);
        return by_config && (relation == SizeRelation::equal      ? stored == *by_config
                             : relation == SizeRelation::at_least ? stored >= *by_config
                                                                  : stored <= *by_config);
    }
};

constexpr int kOfAbsent = 2;

/// A number in a field, and how well it does.
struct Proposal {
    std::string field;
    Index number = 0;
    std::size_t n_unmet = 0;
    int distance = 0;  ///< 0: a symbol is this field alone; 1: one of several; or kOfAbsent

    [[nodiscard]] auto rank() const { return std::tuple(n_unmet, distance, field, number); }
};

/// The search for fields, one after another.
class FieldSearch {
  public:
    FieldSearch(const Model& model, std::vector<Size> sizes)
        : start_(*model.symbols), now_(start_), sizes_(std::move(sizes)) {}

    std::vector<FieldDifference> run() {
        std::vector<FieldDifference> found;
        std::vector<const Size*> unmet = unmet_by(now_);
        while (!unmet.empty() && found.size() < kMostFields) {
            const std::vector<Proposal> best = best_for(unmet);
            if (best.empty() || best.front().n_unmet >= unmet.size()) {
                break;
            }
            take_proposals(best, found);
            unmet = unmet_by(now_);
        }
        std::erase_if(found, [](const FieldDifference& one) { return one.said == one.stored; });
        // What differs, too, is no other explanation.
        for (FieldDifference& one : found) {
            if (std::ranges::count(found, one.otherwise.first, &FieldDifference::field) > 0) {
                one.otherwise = {};
            }
        }
        return found;
    }

  private:
    [[nodiscard]] std::vector<const Size*> unmet_by(const Symbols& symbols) const {
        return collect_list(
            sizes_, [](const Size& size) { return &size; },
            [&](const Size& size) { return !size.is_met(symbols); });
    }

    /// Those that make the most sizes right, the best first.
    [[nodiscard]] std::vector<Proposal> best_for(const std::vector<const Size*>& unmet) const {
        std::vector<Proposal> best;
        std::set<std::pair<std::string, Index>> tried;
        for (const Size* const size : unmet) {
            for (Proposal& one : proposals_for(*size)) {
                if (!tried.insert({one.field, one.number}).second || !is_shared(*size, one)) {
                    continue;
                }
                one.n_unmet = unmet_by(now_.with_field(one.field, one.number)).size();
                if (!best.empty() && one.n_unmet < best.front().n_unmet) {
                    best.clear();
                }
                if (best.empty() || one.n_unmet == best.front().n_unmet) {
                    best.push_back(std::move(one));
                }
            }
        }
        std::ranges::sort(best, {}, &Proposal::rank);
        return best;
    }

    [[nodiscard]] std::vector<Proposal> proposals_for(const Size& size) const {
        std::vector<Proposal> proposals;
        for (const std::string& symbol : size.symbols()) {
            const models::SymbolFields fields = now_.fields_of(symbol);
            for (const std::string& field : fields.stated) {
                if (now_.number_in(field)) {  // else a text, say: that error tells of itself
                    propose(size, field, fields.stated.size() == 1 ? 0 : 1, proposals);
                }
            }
            for (const std::string& field : fields.absent) {
                propose(size, field, kOfAbsent, proposals);
            }
        }
        return proposals;
    }

    void propose(const Size& size, const std::string& field, int distance,
                 std::vector<Proposal>& proposals) const {
        for (const Index number : solutions(size, field)) {
            proposals.push_back({field, number, 0, distance});
        }
    }

    /// Numbers in the field that make the size right. Sizes are sums and products of fields, at
    /// times divided by one.
    [[nodiscard]] std::set<Index> solutions(const Size& size, const std::string& field) const {
        // So that products of two of them do not overflow.
        const auto is_usual = [](Index number) { return number > 0 && number < (Index{1} << 31U); };
        const Index given = now_.number_in(field).value_or(1);
        const Index present = is_usual(given) ? given : 1;
        std::vector<std::pair<Index, Index>> points;
        for (const Index number : {present, 2 * present, Index{1}, Index{2}, Index{4}}) {
            const auto implied = size.implied(now_.with_field(field, number));
            if (implied && is_usual(*implied)) {
                points.emplace_back(number, *implied);
            }
        }
        if (!is_usual(size.stored)) {
            return {};
        }
        std::set<Index> found;
        for (const auto& [a, at_a] : points) {
            const auto& [b, at_b] = points.front();
            if (at_a != at_b && (size.stored - at_a) * (b - a) % (at_b - at_a) == 0) {
                found.insert(a + (size.stored - at_a) * (b - a) / (at_b - at_a));
            }
            if (a * at_a % size.stored == 0) {
                found.insert(a * at_a / size.stored);
            }
        }
        std::erase_if(found, [&](Index number) {
            return number <= 0 || size.implied(now_.with_field(field, number)) != size.stored;
        });
        return found;
    }

    /// Rows of padding hide how many there should be, unless all tables have as many.
    [[nodiscard]] bool is_shared(const Size& size, const Proposal& proposal) const {
        return std::ranges::all_of(sizes_, [&](const Size& other) {
            if (other.relation != Size::SizeRelation::at_least || other.stored == size.stored) {
                return true;
            }
            const std::set<std::string> names = other.symbols();
            return std::ranges::none_of(names, [&](const std::string& symbol) {
                return now_.fields_of(symbol).stated.contains(proposal.field);
            });
        });
    }

    void take_proposals(const std::vector<Proposal>& best, std::vector<FieldDifference>& found) {
        const Proposal& first = best.front();
        auto* const other = find_where(best, [&](const Proposal& one) {
            return one.field != first.field && one.distance < kOfAbsent;
        });
        now_ = now_.with_field(first.field, first.number);
        std::erase_if(found, [&](const FieldDifference& one) { return one.field == first.field; });
        found.push_back({first.field, start_.number_in(first.field), first.number,
                         other == nullptr ? std::pair<std::string, Index>()
                                          : std::pair(other->field, other->number)});
    }

    Symbols start_;
    Symbols now_;
    std::vector<Size> sizes_;
};

std::string dim_text(const Size& size, Index implied) {
    return (size.relation == Size::SizeRelation::at_least ? "at least " : "") +
           std::to_string(implied);
}

std::vector<Size> sizes_of(const models::Line& line, const std::vector<Index>& shape,
                           const models::Captures& captures) {
    std::vector<Size> sizes;
    for (std::size_t k = 0; k < shape.size() && shape.size() == line.layout.dims.size(); ++k) {
        std::set<std::string> axes;
        add_axes(line.layout.dims[k], axes);
        sizes.push_back({&line.layout.dims[k],
                         {},
                         &captures,
                         shape[k],
                         axes.contains(kPaddingAxis) ? Size::SizeRelation::at_least
                                                     : Size::SizeRelation::equal});
    }
    return sizes;
}

/// Whether all else fits, and the embedding has rows that no token of config.json's has.
bool has_more_rows(const FieldDifference& one) {
    return (one.field == "vocab_size" || one.field == "text_config.vocab_size") &&
           one.otherwise.first.empty() && one.said && *one.said < one.stored;
}

}  // namespace

Mismatches::Explanation explanation_of(const std::vector<FieldDifference>& differences,
                                       const Model& model) {
    std::string text;
    std::string option;
    for (const FieldDifference& one : differences) {
        auto* const typed = find_value(model.by_option, one.field);
        option = typed == nullptr ? option : *typed;
        text += (text.empty() ? "" : "; ") + (typed == nullptr ? one.field : *typed) + " " +
                model.symbols->stated_in(one.field) +
                (&one == &differences.front() ? ", the checkpoint has "
                 : one.said                   ? " and "
                                              : ", but ") +
                std::to_string(one.stored) +
                (one.otherwise.first.empty() ? ""
                                             : " (or " + one.otherwise.first + " " +
                                                   std::to_string(one.otherwise.second) + ")");
    }
    if (!option.empty() && differences.size() == 1) {
        const FieldDifference& one = differences.front();
        return {option + " " + std::to_string(one.said.value_or(0)) +
                    " does not fit: the checkpoint has " + std::to_string(one.stored),
                "correct " + option + " or leave it out"};
    }
    if (differences.size() == 1 && has_more_rows(differences.front())) {
        const std::string rows = std::to_string(differences.front().stored);
        return {"config.json says " + text + " rows",
                "if tokens were added to the model, keep all rows with --vocab_size " + rows +
                    "; else give the trained model's config.json with --hf_config DIR"};
    }
    return {text.empty() ? "" : "this config.json is another model's: " + text, ""};
}

Error in_config_words(Error error, const catalogue::Tensor& tensor, const StoreMatch& match,
                      const Model& model) {
    const Symbols& symbols = *model.symbols;
    std::vector<std::string> dims;
    std::set<std::string> fields;
    for (const Size& size : sizes_of(*match.line, tensor.shape, match.captures)) {
        const auto implied = size.implied(symbols);
        if (!implied) {
            return error;
        }
        dims.push_back(dim_text(size, *implied));
        const std::set<std::string> names =
            size.is_met(symbols) ? std::set<std::string>() : size.symbols();
        for (const std::string& symbol : names) {
            fields.merge(symbols.fields_of(symbol).stated);
        }
    }
    if (fields.empty()) {
        return error;
    }
    const auto with_value = [&](const std::string& field) {
        const auto number = symbols.number_in(field);
        return number ? field + " " + std::to_string(*number) : field;
    };
    const std::string old = error.full_text();
    return Error(error.code(),
                 tensor.name + " is " + shape_text(tensor.shape) + "; config.json (" +
                     joined(fields, ", ", with_value) + ") implies [" + joined(dims, ", ") + "]",
                 error.hint().empty() ? kConfigHint : error.hint())
        .set_detail(old + (error.detail().empty() ? "" : " (" + error.detail() + ")"));
}

void StoredSizes::add_tensor(const StoreMatch& match, const std::vector<Index>& shape) {
    if (shapes_.size() < kMostShapes) {
        shapes_.try_emplace({match.line, shape}, match.captures);
    }
    if (!match.line->optional && !match.line->together) {
        for (const auto& [capture, value] : match.captures) {
            Index& count = counts_[capture];
            count = std::max(count, value + 1);
        }
    }
}

std::vector<FieldDifference> StoredSizes::differences(const Model& model, bool is_short) const {
    std::vector<Size> sizes;
    for (const auto& [key, captures] : shapes_) {
        std::ranges::move(sizes_of(*key.first, key.second, captures), std::back_inserter(sizes));
    }
    for (const auto& [capture, count] : counts_) {
        if (model.symbols->is_index(capture)) {
            sizes.push_back({nullptr, capture, nullptr, count,
                             is_short ? Size::SizeRelation::equal : Size::SizeRelation::at_most});
        }
    }
    return FieldSearch(model, std::move(sizes)).run();
}

}  // namespace shardweld::plan

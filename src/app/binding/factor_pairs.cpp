#include "factor_pairs.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "app/family/training_form.hpp"
#include "core/names/name_rules.hpp"
#include "core/names/natural_order.hpp"
#include "core/text.hpp"
#include "layout/copy.hpp"
#include "layout/unfold.hpp"
#include "models/forms/training_form.hpp"
#include "models/reading/lora_products.hpp"
#include "plan/bind/places.hpp"
#include "plan/bind/recut.hpp"
#include "shardweld/error.hpp"

#include "paired_factors.hpp"
#include "stored_factors.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kWeight = ".weight";
/// Begins the logical names of embeddings, whose factors PEFT has the other way round.
constexpr std::string_view kFoldedEmbeddings = "embed";
/// Begins those of layers for multi-token prediction, and mostly the names of their modules.
constexpr std::string_view kPredictions = "mtp.";

/// A run of the rows or columns of a product, and of those of a tensor of the model.
struct FactorRun {
    Index lo = 0;  ///< in the tensor's
    Index extent = 0;
    Index begin = 0;  ///< in the product's
    Index step = 1;
    friend auto operator<=>(const FactorRun&, const FactorRun&) = default;
};

/// Where one matrix of a stack of products stands in one matrix of a tensor.
struct MatrixPlace {
    std::set<FactorRun> rows;
    std::set<FactorRun> cols;
    Index volume = 0;
};

/// By matrix of the tensor, number of the pair and matrix of its stack.
using PlacedProducts = std::map<std::tuple<Index, std::uint32_t, Index>, MatrixPlace>;

/// Runs that do not meet, and how much they hold.
std::optional<Index> extent_of(const std::set<FactorRun>& runs) {
    Index end = 0;
    Index sum = 0;
    for (const FactorRun& run : runs) {
        if (run.lo < end) {
            return std::nullopt;
        }
        end = run.lo + run.extent;
        sum += run.extent;
    }
    return sum;
}

/// The rows of the product along one axis of a box, or its columns.
std::optional<FactorRun> run_along(const layout::Axis& axis, Index begin, Index unit, Index n) {
    const Index step = axis.extent > 1 ? axis.stride / unit : 1;
    const bool fits =
        (axis.extent == 1 || axis.stride % unit == 0) && begin + (axis.extent - 1) * step < n;
    return fits ? std::optional(FactorRun{axis.lo, axis.extent, begin, step}) : std::nullopt;
}

/// Cuts the factors for one tensor of the model.
class TensorCutter {
  public:
    TensorCutter(const plan::TensorPlaces& tensor, const std::vector<FactorPair>& pairs)
        : tensor_(tensor), pairs_(pairs) {}

    /// False: the tensor's rows and columns are not those of the products.
    [[nodiscard]] bool place() {
        const std::vector<Index>& shape = tensor_.shape;
        if (shape.size() < 2) {
            return false;
        }
        n_rows_ = shape[shape.size() - 2];
        n_cols_ = shape.back();
        for (const bool is_turned : {false, true}) {
            is_turned_ = is_turned;
            placed_.clear();
            if (place_all()) {
                count_pairs();
                return true;
            }
        }
        return false;
    }

    [[nodiscard]] FactorUse use() const {
        FactorUse use;
        use.n_pairs = n_pairs_;
        use.n_rows = n_rows_;
        use.n_cols = n_cols_;
        use.is_module = tensor_.shape.size() == 2 && tensor_.name.ends_with(kWeight);
        adapters::LoraParameter& parameter = use.parameter;
        parameter.path = use.is_module
                             ? tensor_.name.substr(0, tensor_.name.size() - kWeight.size())
                             : tensor_.name;
        parameter.n_batches = n_matrices();
        parameter.n_first = n_rows_;
        parameter.n_second = n_cols_;
        parameter.is_turned = is_turned_;
        parameter.parts = {{tensor_.name, std::nullopt, {true, 0, 1}, {false, 0, 1}}};
        return use;
    }

    /// A or B of all pairs, made of the whole factors `first`... are numbers of. As PEFT has those
    /// of parameters: rows of A are matrices by ranks, columns of B ranks by matrices.
    /// `is_swapped`: of the transposed product, whose A is the transpose of B.
    [[nodiscard]] plan::Target factor(bool is_up, bool is_swapped,
                                      const plan::Targets& whole) const {
        const Index n_in = is_turned_ ? n_rows_ : n_cols_;
        const Index n_out = is_turned_ ? n_cols_ : n_rows_;
        const Index n = n_matrices();
        const Index rank = pairs_[std::get<1>(placed_.begin()->first)].rank;
        plan::Target target;
        target.shape = is_up ? std::vector{n_out, rank * n_pairs_ * n}
                             : std::vector{n * n_pairs_ * rank, n_in};
        const Index down = is_swapped ? 1 : target.shape[1];  // from a row to the next
        const Index right = is_swapped ? target.shape[0] : 1;
        if (is_swapped) {
            std::ranges::reverse(target.shape.own());
        }
        Index slot = 0;
        Index last = -1;
        for (const auto& [key, placed] : placed_) {
            const auto [matrix, number, stacked] = key;
            slot = matrix == last ? slot + 1 : 0;
            last = matrix;
            const FactorPair& pair = pairs_[number];
            const plan::Target& from = whole[is_up ? pair.up : pair.down];
            target.dtype = from.dtype;
            for (const FactorRun& run : is_up != is_turned_ ? placed.rows : placed.cols) {
                layout::Copy copy;
                if (is_up) {
                    copy = {(stacked * pair.n_out + run.begin) * rank,
                            run.lo * down + (slot * rank * n + matrix) * right,
                            {{run.extent, run.step * rank, down}, {rank, 1, n * right}}};
                } else {
                    copy = {stacked * rank * pair.n_in + run.begin,
                            (matrix * n_pairs_ + slot) * rank * down + run.lo * right,
                            {{rank, pair.n_in, down}, {run.extent, run.step, right}}};
                }
                target.operands.push_back({is_up ? pair.up : pair.down, 0, layout::normal(copy)});
            }
        }
        fill(target);
        return target;
    }

  private:
    [[nodiscard]] Index n_matrices() const {
        Index n = 1;
        for (std::size_t k = 0; k + 2 < tensor_.shape.size(); ++k) {
            n *= tensor_.shape[k];
        }
        return n;
    }

    [[nodiscard]] bool place_all() {
        const std::vector<Index> shape{n_matrices(), n_rows_, n_cols_};
        for (const plan::Operand& operand : tensor_.operands) {
            for (const layout::Patch& box : layout::unfold_dst(operand.copy, shape)) {
                for (Index i = 0; i < box.axes[0].extent; ++i) {
                    if (!place(operand.file, box.axes[0].lo + i,
                               box.offset + i * box.axes[0].stride, box)) {
                        return false;
                    }
                }
            }
        }
        return std::ranges::all_of(placed_, [](const auto& one) {
            const auto rows = extent_of(one.second.rows);
            const auto cols = extent_of(one.second.cols);
            return rows && cols && *rows * *cols == one.second.volume;
        });
    }

    [[nodiscard]] bool place(std::uint32_t number, Index matrix, Index offset,
                             const layout::Patch& box) {
        const FactorPair& pair = pairs_[number];
        const Index row = offset / pair.n_in % pair.n_out;
        const Index col = offset % pair.n_in;
        const auto along = [&](const layout::Axis& axis, bool are_rows) {
            return are_rows ? run_along(axis, row, pair.n_in, pair.n_out)
                            : run_along(axis, col, 1, pair.n_in);
        };
        const auto rows = along(box.axes[1], !is_turned_);
        const auto cols = along(box.axes[2], is_turned_);
        if (!rows || !cols) {
            return false;
        }
        MatrixPlace& placed = placed_[{matrix, number, offset / (pair.n_in * pair.n_out)}];
        placed.rows.insert(*rows);
        placed.cols.insert(*cols);
        placed.volume += rows->extent * cols->extent;
        return true;
    }

    void count_pairs() {
        Index n = 0;
        Index last = -1;
        for (const auto& [key, placed] : placed_) {
            n = std::get<0>(key) == last ? n + 1 : 1;
            last = std::get<0>(key);
            n_pairs_ = std::max(n_pairs_, n);
        }
    }

    /// What no factor reaches is zero.
    static void fill(plan::Target& target) {
        std::vector<bool> is_made(as_size(target.volume()));
        for (const plan::Operand& operand : target.operands) {
            for (const layout::Patch& box : layout::unfold_dst(operand.copy, target.shape)) {
                for (Index i = 0; i < box.axes[0].extent; ++i) {
                    const Index at = (box.axes[0].lo + i) * target.shape[1] + box.axes[1].lo;
                    std::fill_n(is_made.begin() + at, box.axes[1].extent, true);
                }
            }
        }
        for (auto at = std::ranges::find(is_made, false); at != is_made.end();) {
            const auto end = std::find(at, is_made.end(), true);
            target.zeros.push_back({at - is_made.begin(), end - at});
            at = std::find(end, is_made.end(), false);
        }
    }

    const plan::TensorPlaces& tensor_;
    const std::vector<FactorPair>& pairs_;
    PlacedProducts placed_;
    bool is_turned_ = false;
    Index n_rows_ = 0;
    Index n_cols_ = 0;
    Index n_pairs_ = 1;
};

[[noreturn]] void refuse_product(const std::string& product, const std::string& why) {
    throw Error(ErrorCode::unsupported,
                "the adapter of " + printable(product) + " is not read: " + why, kMergeThere);
}

/// What must be equal in the files before anything is written, by the tensors that are made of it.
std::vector<plan::SamePair> same_of(const plan::Binding& whole, const plan::Targets& targets,
                                    const std::vector<std::vector<std::uint32_t>>& made_of) {
    std::vector<plan::SamePair> same;
    for (const plan::SamePair& pair : whole.same) {
        for (const std::size_t i : indices(targets)) {
            if (contains(made_of[i], pair.target)) {
                same.push_back({pair.stored_name, i, 0, targets[i].replicas.size(), pair.why});
            }
        }
    }
    return same;
}

/// A name that ends with an embedding's or a token's, whose factors PEFT has the other way round.
/// `embed_out` is a head.
bool is_embedding_module(std::string_view module) {
    const std::string_view last = module.substr(module.rfind('.') + 1);
    return last.ends_with("embed") || last.ends_with("embedding") || last.ends_with("embeddings") ||
           last.ends_with("_token") || (last.starts_with("embed_") && last != "embed_out");
}

/// Cuts pairs for the tensors of one form of the model.
class PairCutter {
  public:
    /// `spelled`: how the form has names of tensors that pass; empty: as they are.
    /// `is_for_peft`: factors are those of PEFT's modules, not only of the same product.
    PairCutter(const plan::Binding& whole, std::vector<FactorPair> pairs, const HeldModel& form,
               const TrainingForm::Passing& spelled, bool is_for_peft)
        : whole_(whole),
          pairs_(std::move(pairs)),
          form_(form),
          is_for_peft_(is_for_peft),
          lines_(models::lora_products(*form.dialect)) {
        std::ranges::transform(pairs_, std::back_inserter(products_), [&](const FactorPair& pair) {
            return product_of(pair, whole.targets);
        });
        plan::Model model = form.model();
        model.dialect = &lines_;
        places_ = plan::places_of(products_, model);
        std::erase_if(places_.tensors, [&](const plan::TensorPlaces& tensor) {
            return is_for_peft && is_tied_head(tensor);
        });
        for (plan::TensorPlaces& tensor : places_.tensors) {
            if (spelled && (form.training == nullptr || line_of(tensor) == nullptr)) {
                tensor.name = spelled(tensor.name);
            }
        }
    }

    /// Error where a product is no part of a model of the family, or not of its rows and columns.
    void cut_all(CutFactors& cut) const {
        for (const std::size_t i : indices(products_)) {
            if (const std::string_view why = fault_of(i); !why.empty()) {
                refuse_product(products_[i].name, std::string(why));
            }
        }
        for (const plan::TensorPlaces& tensor : places_.tensors) {
            if (!add(tensor, cut)) {
                refuse_product(first_pair(tensor).name, printable(tensor.name) + " " +
                                                            shape_text(tensor.shape) +
                                                            " has not its rows and columns");
            }
        }
    }

    /// Those that are of modules alone, each of one pair; gives the pairs of all others.
    std::vector<FactorPair> cut_modules(CutFactors& cut) const {
        std::set<std::uint32_t> others;
        for (std::uint32_t i = 0; i < products_.size(); ++i) {
            if (!fault_of(i).empty()) {
                others.insert(i);
            }
        }
        std::vector<const plan::TensorPlaces*> left;
        for (const plan::TensorPlaces& tensor : places_.tensors) {
            CutFactors one;
            if (add(tensor, one) && is_plain(one.uses.begin()->second)) {
                left.push_back(&tensor);
            } else {
                add_pairs(tensor, others);
            }
        }
        for (std::size_t before = 0; before != left.size();) {  // a pair may be of several tensors
            before = left.size();
            std::erase_if(left, [&](const plan::TensorPlaces* tensor) {
                const bool is_out = std::ranges::any_of(
                    tensor->operands,
                    [&](const plan::Operand& operand) { return others.contains(operand.file); });
                if (is_out) {
                    add_pairs(*tensor, others);
                }
                return is_out;
            });
        }
        for (const plan::TensorPlaces* const tensor : left) {
            add(*tensor, cut);
        }
        return collect_list(others, [&](const std::uint32_t other) { return pairs_[other]; });
    }

  private:
    /// Why adding a product to its weight makes no model of the family's; "": it does. For PEFT,
    /// head and embedding in one are adapted each on its own.
    [[nodiscard]] std::string_view fault_of(std::size_t at) const {
        const plan::Places::Stored& stored = places_.stored[at];
        if (stored.line == nullptr) {
            return "";
        }
        const models::Line& line = *stored.line;
        for (const models::SameRule& rule : form_.recipe->same) {
            if (!is_for_peft_ && (rule.a == line.logical || rule.b == line.logical) &&
                form_.symbols->holds(rule.condition)) {
                return "the model's head and embedding are one matrix, and it changes one of them";
            }
        }
        if (!line.repeat.empty()) {
            return "Megatron stores rows of that weight several times, and the adapter changes "
                   "each on its own";
        }
        if (stored.n_placed == 0) {
            return "no tensor of the written model is made of that weight";
        }
        // Rows that a line drops, such as values of layers that use their keys, are read by nobody.
        const catalogue::Tensor& product = products_[at];
        if (stored.n_placed != volume_of(product.shape, product.name) && line.drop.empty()) {
            return "the written model has only a part of that weight";
        }
        return "";
    }

    static bool is_plain(const FactorUse& use) { return use.is_module && use.n_pairs == 1; }

    static void add_pairs(const plan::TensorPlaces& tensor, std::set<std::uint32_t>& pairs) {
        for (const plan::Operand& operand : tensor.operands) {
            pairs.insert(operand.file);
        }
    }

    [[nodiscard]] const FactorPair& first_pair(const plan::TensorPlaces& tensor) const {
        return pairs_[tensor.operands.front().file];
    }

    [[nodiscard]] const models::Line* line_of(const plan::TensorPlaces& tensor) const {
        return places_.stored[tensor.operands.front().file].line;
    }

    /// The head that an embedding stands for, too: PEFT adapts the module that is named alone.
    [[nodiscard]] bool is_tied_head(const plan::TensorPlaces& tensor) const {
        const models::Line* const line = line_of(tensor);
        const auto leaf_of = [](const std::string& name) {
            return name.substr(name.rfind('.', name.rfind('.') - 1) + 1);
        };
        return line != nullptr &&
               std::ranges::any_of(form_.recipe->same, [&](const models::SameRule& rule) {
                   return line->logical == rule.b && form_.symbols->holds(rule.condition) &&
                          std::ranges::any_of(form_.recipe->hub, [&](const models::Line& hub) {
                              return hub.logical == rule.a &&
                                     leaf_of(hub.name.text) == leaf_of(tensor.name);
                          });
               });
    }

    /// False: the tensor has not the rows and columns of its products.
    bool add(const plan::TensorPlaces& tensor, CutFactors& cut) const {
        TensorCutter cutter(tensor, pairs_);
        if (!cutter.place()) {
            return false;
        }
        FactorUse use = cutter.use();
        const models::Line* const line = line_of(tensor);
        use.is_prediction = use.parameter.path.starts_with(kPredictions) ||
                            (line != nullptr && line->logical.starts_with(kPredictions));
        use.is_embedding =
            use.is_module && (is_embedding_module(use.parameter.path) ||
                              (line != nullptr && line->logical.starts_with(kFoldedEmbeddings)));
        // PEFT takes the last dim of a parameter for the input's, whatever the model does with it.
        const bool is_swapped =
            is_for_peft_ && (use.is_embedding ||
                             (!use.is_module && use.parameter.is_turned &&
                              !is_known_as(form_.recipe->name, "family of transposed experts")));
        const std::string stem =
            use.parameter.path + (is_for_peft_ && use.is_embedding ? ".lora_embedding_" : ".lora_");
        for (const bool is_up : {false, true}) {
            plan::Target& factor =
                cut.targets.emplace_back(cutter.factor(is_up, is_swapped, whole_.targets));
            factor.name = stem + (is_up != is_swapped ? "B" : "A") +
                          (is_for_peft_ && use.is_embedding ? "" : ".weight");
        }
        use.rank = first_pair(tensor).rank;
        cut.uses.emplace(use.parameter.path, use);
        return true;
    }

    const plan::Binding& whole_;
    std::vector<FactorPair> pairs_;
    const HeldModel& form_;
    bool is_for_peft_;
    models::Dialect lines_;
    std::vector<catalogue::Tensor> products_;
    plan::Places places_;
};

/// Operands lead to what is stored, from what was bound whole.
void recut_operands(const plan::Binding& whole, CutFactors& cut) {
    sort_naturally(cut.targets, &plan::Target::name);
    std::vector<std::vector<std::uint32_t>> made_of;
    for (const plan::Target& target : cut.targets) {
        std::ranges::transform(target.operands, std::back_inserter(made_of.emplace_back()),
                               &plan::Operand::file);
    }
    plan::recut(whole.targets, 0, cut.targets);
    cut.same = same_of(whole, cut.targets, made_of);
}

/// Error(unsupported) for what PEFT has no names for, though it can be folded.
void require_modules(const CutFactors& factors) {
    for (const auto& [path, use] : factors.uses) {
        if (use.n_pairs > 1 && !use.is_module) {
            throw Error(ErrorCode::unsupported,
                        "the adapter has " + std::to_string(use.n_pairs) +
                            " pairs of factors for " +
                            printable(use.parameter.parts.front().target) + ", where PEFT has one",
                        "use --lora fold");
        }
    }
}

/// Factors of parameters are called as those of the module that has them. PEFT wraps a module once
/// for each, in the order in which classes make them: down_proj is outside of gate_up_proj.
void name_parameters(CutFactors& factors) {
    for (plan::Target& factor : factors.targets) {
        const std::string name = factor.name;
        const std::size_t end = name.rfind(".lora_");
        const std::string path = name.substr(0, end);
        if (factors.uses.at(path).is_module) {
            continue;
        }
        std::string module = path.substr(0, path.rfind('.'));
        std::string wrappers;
        for (const auto& [other, use] : factors.uses) {
            if (!use.is_module && other < path && other.substr(0, other.rfind('.')) == module) {
                wrappers += ".base_layer";
            }
        }
        factor.name = module + wrappers + name.substr(end);
    }
}

}  // namespace

CutFactors cut_factors(const plan::Binding& whole, const HeldModel& framework) {
    CutFactors cut;
    PairCutter(whole, pairs_of(whole.targets, *framework.dialect->lora), framework, {}, false)
        .cut_all(cut);
    recut_operands(whole, cut);
    return cut;
}

CutFactors cut_for_modules(const plan::Binding& whole, const HeldModel& framework,
                           const HeldModel* tree) {
    std::vector<FactorPair> apart = pairs_of(whole.targets, *framework.dialect->lora);
    CutFactors cut;
    TrainingForm::Passing renamed_back;
    if (tree != nullptr) {
        const TrainingForm::Passing spelled = tree->training->passing();
        apart = PairCutter(whole, std::move(apart), *tree, spelled, true).cut_modules(cut);
        models::Dialect own;
        own.has_own_names = true;
        renamed_back = [tree, own](const std::string& hub_name) {
            return models::passing_name(*tree->recipe, own, hub_name);
        };
    }
    if (!apart.empty()) {
        CutFactors others;
        PairCutter(whole, apart, framework, renamed_back, true).cut_all(others);
        const auto is_parameter = [](const auto& use) { return !use.second.is_module; };
        if (tree != nullptr && std::ranges::any_of(others.uses, is_parameter)) {
            others = {};
            PairCutter(whole, std::move(apart), *tree, tree->training->passing(), true)
                .cut_all(others);
        }
        append_all(cut.targets, std::move(others.targets));
        cut.uses.merge(others.uses);
    }
    require_modules(cut);
    name_parameters(cut);
    recut_operands(whole, cut);
    return cut;
}

}  // namespace shardweld::app

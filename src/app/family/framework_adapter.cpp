#include "framework_adapter.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

constexpr const char* kModuleDialect = "hf_module";
/// What the reader puts in front of the name of a module that was trained as a whole.
constexpr std::string_view kOfWhole = ".adapter.modules_to_save.";
constexpr std::string_view kExperts = ".experts.";
constexpr const char* kMergeThere =
    "merge the adapter into the model with the framework that trained it and save that, or leave "
    "it out with --lora drop";

/// "X.adapter.adapter_q.linear_in.weight" for "X.adapter.linear_in.weight".
std::string part_name(const std::string& name, const models::LoraNames& names,
                      const std::string& label) {
    std::string end = names.part_down;
    end.replace(end.find('*'), 1, label);
    return name.substr(0, name.size() - names.down.size()) + end;
}

/// An A that all segments of a fused weight share becomes one for each. Returns how many bytes are
/// counted anew by that.
template <typename Item>
Bytes share(const models::LoraForm& form, const models::Symbols& symbols,
            std::vector<Item>& items) {
    const auto value_of = [&](const std::string& symbol) { return symbols.value(symbol); };
    std::vector<Item> shared_by_none;
    std::vector<Item> shares;
    Bytes repeated = 0;
    for (Item& item : items) {
        const std::string name = item.name;
        const auto shared = std::ranges::find_if(form.shared, [&](const auto& one) {
            const auto captures = one.name.match(name, value_of);
            return captures && symbols.holds(one.condition, *captures);
        });
        if (shared == form.shared.end()) {
            shared_by_none.push_back(std::move(item));
            continue;
        }
        repeated += (shared->labels.size() - 1) * catalogue::stored_bytes(item);
        for (const std::string& label : shared->labels) {
            shares.push_back(item);
            shares.back().name = part_name(name, form.dialect.lora.value(), label);
        }
    }
    items = std::move(shared_by_none);
    std::ranges::move(shares, std::back_inserter(items));
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.name < b.name; });
    return repeated;
}

/// [gate of rank 0; up of rank 0; gate of rank 1; ...] as [gate; up].
void undo_rank_order(catalogue::Tensor& tensor, Index n_ranks) {
    const std::size_t rows = tensor.shape.size() - 2;
    const Index half = tensor.shape[rows] / (2 * n_ranks);
    std::vector<catalogue::Piece> pieces;
    for (const catalogue::Piece& piece : tensor.pieces) {
        const Index rank = piece.patch.axes[rows].lo / (2 * half);
        if (piece.patch.axes[rows].extent != 2 * half ||
            piece.patch.axes[rows].lo != rank * 2 * half) {
            throw Error(ErrorCode::unsupported,
                        "the pieces of " + printable(tensor.name) + " are not the rows of " +
                            std::to_string(n_ranks) +
                            " tensor-parallel ranks: their order is not known",
                        kMergeThere);
        }
        for (const Index part : {0, 1}) {
            catalogue::Piece& own = pieces.emplace_back(piece);
            layout::Axis& axis = own.patch.axes[rows];
            own.patch.offset += part * half * axis.stride;
            axis.lo = (part * n_ranks + rank) * half;
            axis.extent = half;
        }
    }
    tensor.pieces = std::move(pieces);
}

/// Factors B whose rows the reader found by ranks.
void undo_rank_orders(const models::LoraForm& form, const models::LoraNames& names,
                      const models::Symbols& symbols, Catalogue& factors) {
    const auto n_ranks = factors.facts.find(formats::kLoraRowsByRank);
    if (n_ranks == factors.facts.end()) {
        return;
    }
    for (catalogue::Tensor& tensor : factors.tensors) {
        if (!tensor.name.ends_with(names.up)) {
            continue;
        }
        std::string down = tensor.name;
        down.replace(down.size() - names.up.size(), names.up.size(), names.down);
        for (const models::LoraForm::Shared& shared : form.shared) {
            if (shared.labels == std::vector<std::string>{"gate", "up"} &&
                shared.name.match(down, [&](const std::string& s) { return symbols.value(s); })) {
                undo_rank_order(tensor, n_ranks->second);
                break;
            }
        }
    }
}

/// A catalogue of the same files, without tensors.
Catalogue of_same_files(const Catalogue& catalogue) {
    Catalogue out;
    out.format = catalogue.format;
    out.dialect = catalogue.dialect;
    out.files = catalogue.files;
    out.facts = catalogue.facts;
    out.mesh = catalogue.mesh;
    return out;
}

/// Takes what is the adapter's out of a catalogue.
class FactorSorter {
  public:
    /// ".adapter." of ".adapter.linear_in.weight" tells all that is an adapter's.
    explicit FactorSorter(const models::LoraNames& names)
        : names_(names), of_adapter_(names.down.substr(0, names.down.find('.', 1) + 1)) {}

    [[nodiscard]] Catalogue take(Catalogue& catalogue) const {
        Catalogue factors = of_same_files(catalogue);
        move(catalogue.tensors, factors.tensors);
        move(catalogue.shards, factors.shards);
        return factors;
    }

    /// Error(unsupported) for adapters of other kinds.
    void require_plain(const Catalogue& factors) const {
        std::set<Index> ranks;
        const auto check = [&](const auto& item) {
            const std::string& name = item.name;
            if (!is_plain(name)) {
                throw Error(ErrorCode::unsupported,
                            printable(name) +
                                " belongs to an adapter that is no plain LoRA of matrices, which "
                                "is not read",
                            kMergeThere);
            }
            if (name.find(kExperts) != std::string::npos && !is_of_each(item, factors)) {
                throw Error(ErrorCode::unsupported,
                            printable(name) + " " + shape_text(shape_of(item)) +
                                " is of an adapter of experts that is not stored as one pair of "
                                "factors for each of them: which experts it is for, or how "
                                "tensor-parallel ranks order its rows, nothing stored says",
                            kMergeThere);
            }
            if (name.ends_with(names_.up) && !item.shape.empty()) {
                ranks.insert(item.shape.back());
            }
        };
        std::ranges::for_each(factors.tensors, check);
        std::ranges::for_each(factors.shards, check);
        if (ranks.empty()) {
            const std::string& first = factors.tensors.empty() ? factors.shards.front().name.text()
                                                               : factors.tensors.front().name;
            throw Error(ErrorCode::mismatch,
                        printable(first) + " is stored, but no *" + names_.up + " of any layer",
                        "half of the adapter is missing: copy all files of its save");
        }
        if (ranks.size() > 1) {
            throw Error(ErrorCode::unsupported,
                        "the adapter's factors have ranks " + std::to_string(*ranks.begin()) +
                            " to " + std::to_string(*ranks.rbegin()),
                        kMergeThere);
        }
    }

  private:
    template <typename Item>
    void move(std::vector<Item>& from, std::vector<Item>& to) const {
        const auto factors = std::stable_partition(from.begin(), from.end(), [&](const Item& item) {
            const std::string& name = item.name;
            return name.find(of_adapter_) == std::string::npos;
        });
        to.assign(std::make_move_iterator(factors), std::make_move_iterator(from.end()));
        from.erase(factors, from.end());
    }

    [[nodiscard]] bool is_plain(const std::string& name) const {
        const std::string* const ends[] = {&names_.down, &names_.up, &names_.part_down,
                                           &names_.part_up};
        return std::ranges::any_of(
            ends, [&](const std::string* end) { return glob_matches("*" + *end, name); });
    }

    static const std::vector<Index>& shape_of(const catalogue::Tensor& tensor) {
        return tensor.shape;
    }
    static const std::vector<Index>& shape_of(const catalogue::Shard& shard) { return shard.shape; }

    /// Whether a rank's file holds the experts of that rank.
    [[nodiscard]] bool is_of_each(const catalogue::Shard& /*shard*/,
                                  const Catalogue& /*factors*/) const {
        return false;
    }
    /// Megatron-Bridge's keys in distributed checkpoints, where experts are an axis, whether each
    /// has a pair of its own or all have copies of one. B of [gate; up] is cut into two halves for
    /// each tensor-parallel rank; rows that lie by ranks are in no order of the model's.
    [[nodiscard]] bool is_of_each(const catalogue::Tensor& tensor, const Catalogue& factors) const {
        const std::string& name = tensor.name;
        const bool is_stack = name.find("layers.mlp.") != std::string::npos;
        if (name.find(".experts.experts.linear_") == std::string::npos ||
            tensor.shape.size() != (is_stack ? 4U : 3U)) {
            return false;
        }
        if (!name.ends_with("linear_fc1" + names_.up)) {
            return true;
        }
        std::set<Index> begins;
        for (const catalogue::Piece& piece : tensor.pieces) {
            begins.insert(piece.patch.axes[tensor.shape.size() - 2].lo);
        }
        const auto stated =
            factors.facts.contains("etp") ? factors.facts.find("etp") : factors.facts.find("tp");
        const Index ranks = stated == factors.facts.end() ? 0 : stated->second;
        return begins.size() == 1 || ranks == 1 || static_cast<Index>(begins.size()) == 2 * ranks;
    }

    const models::LoraNames& names_;
    std::string of_adapter_;
};

/// Takes the modules that were trained as a whole out of an adapter, under the framework's names of
/// them.
template <typename Item>
void take_trained(std::vector<Item>& from, std::vector<Item>& to) {
    std::erase_if(from, [&](const Item& item) {
        std::string name = item.name;
        const std::size_t at = name.find(kOfWhole);
        const std::size_t end = at == std::string::npos ? at : name.find('.', at + kOfWhole.size());
        if (end == std::string::npos) {
            return false;
        }
        to.push_back(item);
        to.back().name = name.erase(at, end - at);
        return true;
    });
}

Catalogue take_trained(Catalogue& factors) {
    Catalogue whole = of_same_files(factors);
    take_trained(factors.tensors, whole.tensors);
    take_trained(factors.shards, whole.shards);
    return whole;
}

bool is_empty(const Catalogue& catalogue) {
    return catalogue.tensors.empty() && catalogue.shards.empty();
}

/// The recipe of any part of the model. Beside a base, tensors have the dtype that is asked for.
models::Recipe of_parts(const models::Recipe& recipe, bool is_beside) {
    models::Recipe parts = recipe;
    for (models::Line& line : parts.hub) {
        line.optional = true;
        line.together = false;
        if (is_beside) {
            line.keep.reset();
        }
    }
    parts.same = {};
    return parts;
}

/// A base that was given with --base has the names of a module tree: it is prepared as if it stood
/// alone. nullopt where there is none.
std::optional<PreparedModel> prepare_base(const ModelFiles& files, const ModelChoice& choice,
                                          const models::LoraNames& names, Catalogue& catalogue) {
    Catalogue adapter = FactorSorter(names).take(catalogue);
    std::optional<PreparedModel> prepared;
    if (!is_empty(catalogue)) {
        const std::string dialect = std::exchange(catalogue.dialect, kModuleDialect);
        auto is_alone = catalogue.facts.extract(formats::kLoraOnly);
        prepared = prepare_model(files, choice, catalogue);
        catalogue.facts.insert(std::move(is_alone));
        catalogue.dialect = dialect;
    }
    std::ranges::move(adapter.tensors, std::back_inserter(catalogue.tensors));
    std::ranges::move(adapter.shards, std::back_inserter(catalogue.shards));
    return prepared;
}

}  // namespace

PreparedModel prepare_with_adapter(const ModelFiles& files, const ModelChoice& choice,
                                   Catalogue& catalogue) {
    PreparedModel prepared = prepare_model(files, choice, catalogue);
    if (!holds_framework_adapter(catalogue)) {
        return prepared;
    }
    if (!prepared.dialect->lora) {
        throw Error(ErrorCode::unsupported,
                    "the dialect " + prepared.dialect->name + " does not say how adapters are kept",
                    "give one that has `lora` with --recipe");
    }
    const auto framework = std::make_shared<const PreparedModel>(prepared);
    if (holds_adapter_only(catalogue)) {
        prepared = prepare_base(files, choice, *framework->dialect->lora, catalogue)
                       .value_or(std::move(prepared));
        // What is to be said of the framework's recipe holds for what is made of its tensors.
        prepared.warnings = framework->warnings;
    }
    prepared.framework = framework;
    return prepared;
}

Catalogue take_adapter(Catalogue& catalogue, const models::LoraNames& names) {
    return FactorSorter(names).take(catalogue);
}

FrameworkAdapter bind_framework_adapter(Catalogue stored, const PreparedModel& framework,
                                        const plan::BindOptions& factors,
                                        const plan::BindOptions& trained, bool is_beside) {
    const models::LoraNames& names = *framework.dialect->lora;
    const models::Symbols& symbols = *framework.symbols;
    const models::LoraForm form = models::lora_form(*framework.recipe, *framework.dialect);
    Catalogue whole = take_trained(stored);
    if (!is_empty(stored) || is_empty(whole)) {
        FactorSorter(names).require_plain(stored);
    }
    undo_rank_orders(form, names, symbols, stored);
    FrameworkAdapter adapter;
    adapter.repeated = share(form, symbols, stored.tensors) + share(form, symbols, stored.shards);
    adapter.factors =
        plan::bind(std::move(stored), {&form.recipe, &form.dialect, &symbols}, factors);
    if (!is_empty(whole)) {
        const models::Recipe parts = of_parts(*framework.recipe, is_beside);
        adapter.trained =
            plan::bind(std::move(whole), {&parts, framework.dialect.get(), &symbols}, trained);
    }
    return adapter;
}

}  // namespace shardweld::app

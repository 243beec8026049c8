#include "framework_adapter.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "adapters/separate.hpp"
#include "adapters/stored_pieces.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "bind_model.hpp"
#include "vocabulary.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

constexpr const char* kModuleDialect = "hf_module";
constexpr std::array<const char*, 3> kAdapterFacts = {"lora_rank", "lora_only",
                                                      "lora_rows_by_rank"};
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

/// An A that all segments of a fused weight share, as one for each.
template <typename Item>
void share(const models::LoraForm& form, const models::Symbols& symbols, std::vector<Item>& items) {
    std::vector<Item> more;
    for (Item& item : items) {
        const std::string name = item.name;
        for (const models::LoraForm::Shared& shared : form.shared) {
            const auto captures = shared.name.match(
                name, [&](const std::string& symbol) { return symbols.value(symbol); });
            if (!captures || !symbols.holds(shared.condition, *captures)) {
                continue;
            }
            for (const std::string& label : shared.labels) {
                more.push_back(item);
                more.back().name = part_name(name, form.dialect.lora.value(), label);
            }
            item.name = {};
            break;
        }
    }
    std::erase_if(items, [](const Item& item) { return item.name == ""; });
    std::move(more.begin(), more.end(), std::back_inserter(items));
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.name < b.name; });
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

/// Factors B whose rows the reader found by ranks (`lora_rows_by_rank`).
void undo_rank_orders(const models::LoraForm& form, const models::LoraNames& names,
                      const models::Symbols& symbols, Catalogue& factors) {
    const auto n_ranks = factors.facts.find("lora_rows_by_rank");
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

/// Takes what is the adapter's out of a catalogue.
class FactorSorter {
  public:
    /// ".adapter." of ".adapter.linear_in.weight" tells all that is an adapter's.
    explicit FactorSorter(const models::LoraNames& names)
        : names_(names), of_adapter_(names.down.substr(0, names.down.find('.', 1) + 1)) {}

    [[nodiscard]] Catalogue take(Catalogue& catalogue) const {
        Catalogue factors;
        factors.format = catalogue.format;
        factors.dialect = catalogue.dialect;
        factors.files = catalogue.files;
        factors.facts = catalogue.facts;
        factors.mesh = catalogue.mesh;
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
    Catalogue whole;
    whole.format = factors.format;
    whole.dialect = factors.dialect;
    whole.files = factors.files;
    whole.facts = factors.facts;
    whole.mesh = factors.mesh;
    take_trained(factors.tensors, whole.tensors);
    take_trained(factors.shards, whole.shards);
    return whole;
}

/// The recipe of any part of the model.
models::Recipe of_parts(const models::Recipe& recipe) {
    models::Recipe parts = recipe;
    for (models::Line& line : parts.hub) {
        line.optional = true;
        line.together = false;
        line.keep.reset();
    }
    parts.same = {};
    return parts;
}

bool is_empty(const Catalogue& catalogue) {
    return catalogue.tensors.empty() && catalogue.shards.empty();
}

/// All but the tensors, which are the module tree's.
Catalogue renamed_head(const Catalogue& catalogue) {
    Catalogue out;
    out.format = catalogue.format;
    out.dialect = kModuleDialect;
    out.notes = catalogue.notes;
    out.warnings = catalogue.warnings;
    out.files = catalogue.files;
    out.statements = catalogue.statements;
    out.inert_globals = catalogue.inert_globals;
    out.facts = catalogue.facts;
    for (const char* const fact : kAdapterFacts) {
        out.facts.erase(fact);
    }
    return out;
}

/// "X" of "X.weight", "X.lora_A.weight".
std::string module_of(const std::string& name, std::string_view end) {
    return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}

/// Puts what was bound into a catalogue of module names.
class Renamer {
  public:
    explicit Renamer(Catalogue& out) : out_(out) {}

    void add_factors(const plan::Binding& binding) {
        for (const plan::Target& target : binding.targets) {
            wrapped_.insert(module_of(target.name, ".lora_A.weight"));
            out_.tensors.push_back(adapters::stored_as(target, with_part(target.name, "default")));
        }
        add_ignored(binding.ledger);
    }

    void add_whole(const plan::Binding& binding) {
        for (const plan::Target& target : binding.targets) {
            whole_.insert(target.name);
            out_.tensors.push_back(
                adapters::stored_as(target, with_part(target.name, "modules_to_save.default")));
        }
        add_ignored(binding.ledger);
    }

    void add_base(const plan::Binding& binding) {
        for (const plan::Target& target : binding.targets) {
            const std::string module = module_of(target.name, ".weight");
            const bool is_wrapped = !module.empty() && wrapped_.contains(module);
            out_.tensors.push_back(adapters::stored_as(
                target, whole_.contains(target.name) ? with_part(target.name, "original_module")
                        : is_wrapped                 ? with_part(target.name, "base_layer")
                                                     : target.name));
        }
        add_ignored(binding.ledger);
    }

    void finish() {
        std::stable_sort(out_.tensors.begin(), out_.tensors.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; });
    }

  private:
    void add_ignored(const plan::Ledger& ledger) {
        out_.ignored.insert(out_.ignored.end(), ledger.ignored.begin(), ledger.ignored.end());
        if (ledger.padding != 0) {
            out_.ignored.push_back({"vocabulary", "padding", 1, ledger.padding});
        }
    }

    /// "X.part.weight" of "X.weight".
    static std::string with_part(std::string name, const std::string& part) {
        return name.insert(name.rfind('.'), "." + part);
    }

    Catalogue& out_;
    std::set<std::string> wrapped_;  ///< modules with factors
    std::set<std::string> whole_;    ///< tensors that were trained as a whole
};

Catalogue as_peft(Catalogue catalogue, const PreparedModel& prepared, const ModelFiles& files) {
    const bool is_alone = adapters::holds_adapter_only(catalogue);
    const models::LoraNames& names = *prepared.dialect->lora;
    const models::LoraForm form = models::lora_form(*prepared.recipe, *prepared.dialect);
    const FactorSorter sorter(names);
    Catalogue factors = sorter.take(catalogue);
    Catalogue whole = take_trained(factors);
    if (!is_empty(factors) || is_empty(whole)) {
        sorter.require_plain(factors);
    }
    undo_rank_orders(form, names, *prepared.symbols, factors);
    share(form, *prepared.symbols, factors.tensors);
    share(form, *prepared.symbols, factors.shards);
    Catalogue out = renamed_head(catalogue);
    Renamer renamed(out);
    renamed.add_factors(
        plan::bind(std::move(factors), {&form.recipe, &form.dialect, prepared.symbols.get()}, {}));
    if (!is_empty(whole)) {
        const models::Recipe parts = of_parts(*prepared.recipe);
        const plan::Binding trained = plan::bind(
            std::move(whole), {&parts, prepared.dialect.get(), prepared.symbols.get()}, {});
        require_only_padding(trained.padding, files.tokens);
        renamed.add_whole(trained);
    }
    if (is_alone) {
        std::move(catalogue.tensors.begin(), catalogue.tensors.end(),
                  std::back_inserter(out.tensors));
        out.ignored.insert(out.ignored.end(), catalogue.ignored.begin(), catalogue.ignored.end());
    } else {
        const plan::Binding base = plan::bind(std::move(catalogue), prepared.model(), {});
        require_only_padding(base.padding, files.tokens);
        renamed.add_base(base);
    }
    renamed.finish();
    return out;
}

/// The base alone, in the framework's own names; what is left out stays in the account.
Catalogue without_adapter(Catalogue catalogue, const models::LoraNames& names) {
    const Catalogue factors = FactorSorter(names).take(catalogue);
    plan::Ledger left_out;
    const auto leave_out = [&](const auto& item) {
        left_out.ignore(item.name, kDroppedAdapter, catalogue::stored_bytes(item));
    };
    std::ranges::for_each(factors.tensors, leave_out);
    std::ranges::for_each(factors.shards, leave_out);
    std::ranges::move(left_out.ignored, std::back_inserter(catalogue.ignored));
    for (const char* const fact : kAdapterFacts) {
        catalogue.facts.erase(fact);
    }
    return catalogue;
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
    if (choice.lora == Lora::drop && !adapters::holds_adapter_only(catalogue)) {
        catalogue = without_adapter(std::move(catalogue), *prepared.dialect->lora);
        prepared.has_dropped_adapter = true;
        return prepared;
    }
    catalogue = as_peft(std::move(catalogue), prepared, files);
    PreparedModel renamed = prepare_model(files, choice, catalogue);
    // What is to be said of the framework's recipe holds for what was made of its tensors.
    renamed.warnings = std::move(prepared.warnings);
    return renamed;
}

}  // namespace shardweld::app

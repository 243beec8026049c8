#include "separate.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "catalogue/catalogue.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

#include "peft_names.hpp"

namespace shardweld::adapters {

namespace {

using catalogue::Catalogue;
using catalogue::Shard;
using catalogue::Tensor;

bool is_adapters(TensorRole role) {
    return role >= TensorRole::whole;
}

bool is_embedding(std::string_view module) {
    return is_known_as(module.substr(module.rfind('.') + 1), "embedding or head");
}

/// Whether the base of the modules that the adapter changes is stored with it. PEFT saves trained
/// biases, whole modules and embeddings under the base's names beside the factors.
bool holds_changed_base(const Catalogue& catalogue) {
    std::set<std::string> changed;
    std::set<std::string> stored_modules;
    bool is_whole = false;
    catalogue::each_name(catalogue, [&](const std::string& stored) {
        const PeftName name = read_name(stored);
        const std::string module = name.module_name.substr(0, name.module_name.rfind('.'));
        if (name.role == TensorRole::factor && !is_embedding(name.module_name)) {
            changed.insert(name.module_name);
        }
        if (is_adapters(name.role) || stored.ends_with(".bias") || is_embedding(module)) {
            return;
        }
        is_whole = is_whole || name.role != TensorRole::base;
        if (stored.starts_with(kPrefix)) {
            stored_modules.insert(module);
        }
    });
    const auto is_changed = [&](const std::string& module) { return changed.contains(module); };
    return is_whole || (changed.empty() ? !stored_modules.empty()
                                        : std::ranges::any_of(stored_modules, is_changed));
}

/// Reads the names of one catalogue, where what is called as PEFT calls the base may be a part of
/// the adapter.
class NameReader {
  public:
    explicit NameReader(const Catalogue& catalogue) : catalogue_(catalogue) {}

    /// The first name in question settles it for all: then the catalogue must still be whole.
    [[nodiscard]] PeftName read(const std::string& stored) {
        PeftName name = read_name(stored);
        if (!is_adapters(name.role) && stored.starts_with(kPrefix)) {
            holds_base_ = holds_base_ ? *holds_base_ : holds_changed_base(catalogue_);
            if (!*holds_base_) {
                name.role =
                    name.role == TensorRole::original ? TensorRole::former : TensorRole::saved;
            }
        }
        return name;
    }

  private:
    const Catalogue& catalogue_;
    std::optional<bool> holds_base_;
};

/// Whether `is_it` holds for one of the names; looks no further than the first.
template <typename Predicate>
bool holds_name(const Catalogue& catalogue, const Predicate& is_it) {
    NameReader reader(catalogue);
    return std::ranges::any_of(catalogue::distinct_names(catalogue), [&](const std::string* name) {
        return is_it(reader.read(*name), *name);
    });
}

/// What was trained as a whole: modules, and the names of their tensors; and what LoRA wraps.
struct WholeNames {
    std::set<std::string> modules;
    std::set<std::string> tensors;
    std::set<std::string> wrapped;  ///< modules of which a `.base_layer.` is stored
    std::set<std::string> adapted;  ///< modules with a factor
    std::set<std::string> adapters;
    std::vector<std::string> saved;  ///< tensors under the base's names that are the adapter's
    std::set<std::string> twins;     ///< those that are stored under `.modules_to_save.`, too
    bool has_rows = false;           ///< trained on their own
    std::string foreign;             ///< the first tensor of an adapter that is no plain LoRA
};

constexpr const char* kMergeElsewhere =
    "merge it with peft itself, or leave it out with --lora drop";

WholeNames names_in(const Catalogue& catalogue, NameReader& reader, const Deal& deal) {
    WholeNames whole;
    catalogue::each_name(catalogue, [&](const std::string& stored) {
        const PeftName name = reader.read(stored);
        if (is_adapters(name.role) && name.role != TensorRole::saved &&
            name.role != TensorRole::former) {
            whole.adapters.insert(name.adapter_name);
        }
        if (name.role == TensorRole::foreign && whole.foreign.empty()) {
            whole.foreign = stored;
        }
        if (name.role == TensorRole::wrapped) {
            whole.wrapped.insert(name.module_name.substr(0, name.module_name.rfind('.')));
        }
        if (name.role == TensorRole::factor || name.role == TensorRole::rows) {
            whole.adapted.insert(name.module_name);
        }
        whole.has_rows = whole.has_rows || name.role == TensorRole::rows;
        if (name.role == TensorRole::whole) {
            whole.modules.insert(name.whole_module);
        }
        if (name.role == TensorRole::saved) {
            whole.saved.push_back(name.module_name);
        }
        if (name.role == TensorRole::whole || name.role == TensorRole::saved) {
            const bool is_new = whole.tensors.insert(deal.hub_name(name.module_name)).second;
            if (!is_new) {
                whole.twins.insert(name.module_name);
            }
        }
    });
    return whole;
}

/// Refuses what would be read wrongly.
void require_one_lora(const Catalogue& catalogue, const WholeNames& names) {
    if (!names.foreign.empty()) {
        throw Error(ErrorCode::unsupported,
                    printable(names.foreign) +
                        " belongs to an adapter that is not a plain LoRA one (another PEFT method)",
                    kMergeElsewhere);
    }
    for (const catalogue::Ignored& row : catalogue.ignored) {
        if (row.reason == "not a tensor" && is_adapters(read_name(row.pattern).role)) {
            throw Error(ErrorCode::unsupported,
                        printable(row.pattern) +
                            " is a part of the adapter, but is stored as an object that is no "
                            "tensor: without it the adapter is another one",
                        "save the adapter's state as plain tensors, or leave it out with --lora "
                        "drop");
        }
    }
    if (names.adapters.size() > 1) {
        const std::string list = joined(
            names.adapters, ", ", [](const std::string& adapter) { return printable(adapter); });
        throw Error(ErrorCode::unsupported,
                    "the checkpoint holds " + std::to_string(names.adapters.size()) +
                        " adapters (" + list + "), but only one can be read",
                    "save it again with the one adapter to merge, or leave them out with --lora "
                    "drop");
    }
}

/// Whether save_pretrained puts a tensor of the base beside the adapter: trained biases, and
/// embeddings that LoRA wraps, unless rows of them were trained on their own.
bool is_saved_too(const PeftName& name, Biases biases, bool has_rows) {
    const bool is_bias = name.module_name.ends_with(".bias");
    if (name.role == TensorRole::wrapped && name.module_name.ends_with(".weight")) {
        const std::string module = name.module_name.substr(0, name.module_name.size() - 7);
        const std::string last = module.substr(module.rfind('.') + 1);
        return !has_rows && (last == "embed_tokens" || last == "lm_head");
    }
    return is_bias && (biases == Biases::all ||
                       (biases == Biases::of_wrapped && name.role == TensorRole::wrapped));
}

/// The factors of all experts in one tensor as PEFT has those of a parameter: rows of A are experts
/// by ranks, columns of B ranks by experts.
void take_apart(Tensor& tensor, bool is_up) {
    if (tensor.shape.size() != 3) {
        throw Error(ErrorCode::mismatch, printable(tensor.name) + " is " +
                                             shape_text(tensor.shape) +
                                             ", expected the factors of all experts");
    }
    const Index n = tensor.shape[0];
    const Index rank = tensor.shape[is_up ? 1 : 2];
    std::vector<catalogue::Piece> pieces;
    for (const catalogue::Piece& piece : tensor.pieces) {
        const layout::Axis& each = piece.patch.axes[is_up ? 1 : 0];
        for (Index at = each.lo; at < each.lo + each.extent; ++at) {
            layout::Axis rows = piece.patch.axes[2];
            layout::Axis cols = piece.patch.axes[is_up ? 0 : 1];
            layout::Axis& joined = is_up ? cols : rows;
            joined.lo += at * (is_up ? n : rank);
            layout::Patch& patch = pieces.emplace_back(piece).patch;
            patch.offset += (at - each.lo) * each.stride;
            patch.axes = {rows, cols};
        }
    }
    tensor.shape =
        is_up ? std::vector{tensor.shape[2], rank * n} : std::vector{n * rank, tensor.shape[1]};
    tensor.pieces = std::move(pieces);
}

void take_apart(const Shard& shard, bool /*is_up*/) {
    throw Error(ErrorCode::unsupported,
                printable(std::string(shard.name)) + " is stored in the pieces of ranks",
                kMergeElsewhere);
}

/// Deals tensors (or shards) out to base and adapter.
class Dealer {
  public:
    Dealer(NameReader& reader, const Deal& deal, bool has_base, const WholeNames& trained,
           Separated& parts)
        : reader_(reader), deal_(deal), has_base_(has_base), trained_(trained), parts_(parts) {}

    template <typename Item>
    void divide(std::vector<Item> items, std::vector<Item>& base, std::vector<Item>& adapter) {
        for (Item& item : items) {
            const PeftName name = reader_.read(item.name);
            if (name.role == TensorRole::former && !deal_.is_dropped) {
                replaced_.ignore(item.name, "what the base had before the training",
                                 catalogue::stored_bytes(item));
                continue;
            }
            const bool is_trained =
                name.role == TensorRole::whole || name.role == TensorRole::saved;
            const bool is_whole = is_trained && deal_.whole == WholeModules::trained;
            const bool is_replaced = !is_adapters(name.role) &&
                                     deal_.whole == WholeModules::trained &&
                                     trained_.tensors.contains(deal_.hub_name(name.module_name));
            const bool is_adapter =
                is_adapters(name.role) ||
                (has_base_ && is_saved_too(name, deal_.biases, trained_.has_rows));
            const bool is_base = is_whole || (!is_adapters(name.role) && !is_replaced);
            if (is_adapter && is_base) {
                parts_.in_both.insert(name.saved_name);
            }
            if (!is_adapter && !is_base) {
                replaced_.ignore(item.name, "trained as a whole by the adapter",
                                 catalogue::stored_bytes(item));
            }
            if (is_adapter) {
                adapter.push_back(item);
                adapter.back().name = name.saved_name;
                if (name.is_grouped && !deal_.is_dropped) {
                    take_apart(adapter.back(), name.component == "lora_B");
                    parts_.grouped = item.name;
                }
            }
            if (is_base) {
                item.name = name.module_name;
                base.push_back(std::move(item));
            }
        }
        parts_.replaced = replaced_.ignored;
    }

  private:
    NameReader& reader_;
    const Deal& deal_;
    bool has_base_;  ///< that was saved with the adapter
    const WholeNames& trained_;
    Separated& parts_;
    plan::Ledger replaced_;
};

template <typename Item>
void sort_by_name(std::vector<Item>& items) {
    std::ranges::stable_sort(items, {}, &Item::name);
}

/// PEFT saves an embedding that was trained as a whole twice, where it saves its new rows: one
/// becomes a copy that must equal the other.
void join_twins(std::vector<Tensor>& tensors, const std::set<std::string>& twins) {
    for (std::size_t i = 1; i < tensors.size(); ++i) {
        Tensor& first = tensors[i - 1];
        Tensor& second = tensors[i];
        if (first.name != second.name || !twins.contains(read_name(first.name).module_name)) {
            continue;
        }
        join_copy(first, std::move(second));
        tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i--));
    }
}

}  // namespace

void join_copy(Tensor& kept, Tensor copy) {
    if (kept.dtype != copy.dtype || kept.shape != copy.shape) {
        throw Error(ErrorCode::mismatch,
                    "the adapter holds " + printable(kept.name) + " twice, as " +
                        shape_text(kept.shape) + " and " + shape_text(copy.shape),
                    "save the adapter again: only one of them was trained");
    }
    for (catalogue::Piece& piece : copy.pieces) {
        ++piece.replica;
    }
    append_all(kept.pieces, std::move(copy.pieces));
}

bool holds_adapter(const Catalogue& catalogue) {
    return holds_name(catalogue, [](const PeftName& name, const std::string& stored) {
        return is_adapters(name.role) || stored.starts_with(kPrefix);
    });
}

bool holds_adapter_only(const Catalogue& catalogue) {
    const bool is_empty = catalogue.tensors.empty() && catalogue.shards.empty();
    return !is_empty && !holds_name(catalogue, [](const PeftName& name, const std::string&) {
        return !is_adapters(name.role);
    });
}

bool holds_wrapped(const Catalogue& catalogue) {
    return holds_name(catalogue, [](const PeftName& name, const std::string&) {
        return name.role == TensorRole::wrapped;
    });
}

ChangedWeights changed_weights(const Catalogue& catalogue) {
    NameReader reader(catalogue);
    ChangedWeights changed;
    catalogue::each_name(catalogue, [&](const std::string& stored) {
        const PeftName name = reader.read(stored);
        if (name.role == TensorRole::factor) {
            changed.by_factors.insert(name.module_name + ".weight");
        }
        if (name.role == TensorRole::rows) {
            changed.by_rows.insert(name.module_name + ".weight");
        }
        const bool is_wrapped = read_name(stored).role == TensorRole::wrapped;
        if (name.role == TensorRole::whole || (name.role == TensorRole::saved && !is_wrapped)) {
            changed.as_whole.insert(name.module_name);
        }
    });
    return changed;
}

Separated separate(Catalogue catalogue, const Deal& deal) {
    NameReader reader(catalogue);
    const WholeNames trained = names_in(catalogue, reader, deal);
    if (!deal.is_dropped) {
        require_one_lora(catalogue, trained);
    }
    Separated parts;
    parts.adapter.format = catalogue.format;
    parts.adapter.dialect = catalogue.dialect;
    parts.adapter.files = catalogue.files;
    parts.adapter.facts = catalogue.facts;
    Dealer dealer(reader, deal, holds_changed_base(catalogue), trained, parts);
    dealer.divide(std::move(catalogue.tensors), parts.base.tensors, parts.adapter.tensors);
    dealer.divide(std::move(catalogue.shards), parts.base.shards, parts.adapter.shards);
    catalogue.tensors = std::move(parts.base.tensors);
    catalogue.shards = std::move(parts.base.shards);
    parts.base = std::move(catalogue);
    for (Catalogue* part : {&parts.base, &parts.adapter}) {
        sort_by_name(part->tensors);
        if (!deal.is_dropped) {
            join_twins(part->tensors, trained.twins);
        }
    }
    std::set_difference(trained.wrapped.begin(), trained.wrapped.end(), trained.adapted.begin(),
                        trained.adapted.end(), std::back_inserter(parts.bare_modules));
    parts.saved_tensors = trained.saved;
    parts.whole_modules = {trained.modules.begin(), trained.modules.end()};
    return parts;
}

}  // namespace shardweld::adapters

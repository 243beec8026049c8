#include "framework_adapter.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "app/family/prepare_model.hpp"
#include "app/family/saved_type.hpp"
#include "app/family/training_form.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "plan/bind/as_stored.hpp"
#include "plan/bind/mismatches.hpp"
#include "plan/bind/store_match.hpp"
#include "shardweld/error.hpp"

#include "stored_factors.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

constexpr const char* kModuleDialect = "hf_module";
/// What the reader puts in front of the name of a module that was trained as a whole.
constexpr std::string_view kOfWhole = ".adapter.modules_to_save.";

/// The recipe's rename rules, where they lead to a name of the form's.
void rename_factors(Catalogue& factors, const models::LoraForm& form,
                    const models::Symbols& symbols) {
    const plan::StoreMatcher matcher(form.dialect, form.recipe, symbols);
    const auto rename = [&](auto& item) {
        std::string name = plan::renamed(form.recipe, item.name);
        if (name != item.name && matcher.find(name, item.shape.size())) {
            item.name = std::move(name);
        }
    };
    catalogue::each_item(factors, rename);
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

bool is_empty(const Catalogue& catalogue) {
    return catalogue.tensors.empty() && catalogue.shards.empty();
}

/// ".adapter." of ".adapter.linear_in.weight" tells all that is an adapter's.
std::string mark_of(const models::LoraNames& names) {
    return names.down.substr(0, names.down.find('.', 1) + 1);
}

template <typename Item>
std::vector<Item> take_marked(std::vector<Item>& from, const std::string& mark) {
    const auto marked = std::stable_partition(from.begin(), from.end(), [&](const Item& item) {
        const std::string& name = item.name;
        return !has_part(name, mark);
    });
    std::vector<Item> taken(std::make_move_iterator(marked), std::make_move_iterator(from.end()));
    from.erase(marked, from.end());
    return taken;
}

/// Whether a factor of experts is one for each of them. In distributed checkpoints experts are an
/// axis, whether each has a pair of its own or all have copies of one. B of [gate; up] is cut into
/// two halves for each tensor-parallel rank; rows that lie by ranks are in no order of the model's.
bool is_of_each(const catalogue::Tensor& tensor, const models::LoraNames& names,
                const std::map<std::string, Index>& facts) {
    const bool is_stack = has_part(tensor.name, "layers.mlp.");
    if (!has_part(tensor.name, ".experts.experts.linear_") ||
        tensor.shape.size() != (is_stack ? 4U : 3U)) {
        return false;
    }
    if (!tensor.name.ends_with("linear_fc1" + names.up)) {
        return true;
    }
    const std::set<Index> begins = collect_set(tensor.pieces, [&](const catalogue::Piece& piece) {
        return piece.patch.axes[tensor.shape.size() - 2].lo;
    });
    const Index ranks = copy_or(find_value(facts, "etp"), copy_or(find_value(facts, "tp"), 0));
    return begins.size() == 1 || ranks == 1 || std::ssize(begins) == 2 * ranks;
}

/// A rank's file holds the experts of that rank.
bool is_of_each(const catalogue::Shard& /*shard*/, const models::LoraNames& /*names*/,
                const std::map<std::string, Index>& /*facts*/) {
    return false;
}

/// Error(unsupported) for adapters of other kinds.
void require_plain(const Catalogue& factors, const models::LoraNames& names) {
    std::set<Index> ranks;
    const auto check = [&](const auto& item) {
        const std::string& name = item.name;
        const auto ends = [&](const std::string& end) { return glob_matches("*" + end, name); };
        const bool is_up = ends(names.up) || ends(names.part_up);
        if (!is_up && !ends(names.down) && !ends(names.part_down)) {
            throw Error(ErrorCode::unsupported,
                        printable(name) +
                            " belongs to an adapter that is no plain LoRA of "
                            "matrices, which is not read",
                        kMergeThere);
        }
        if (has_part(name, kExperts) && !is_of_each(item, names, factors.facts)) {
            throw Error(ErrorCode::unsupported,
                        printable(name) + " " + shape_text(item.shape) +
                            " is of an adapter of experts that is not stored as one pair of "
                            "factors for each of them: which experts it is for, or how "
                            "tensor-parallel ranks order its rows, nothing stored says",
                        kMergeThere);
        }
        if (!item.shape.empty() && is_up) {
            ranks.insert(item.shape.back());
        }
    };
    catalogue::each_item(factors, check);
    if (ranks.empty() && !is_empty(factors)) {
        refuse_half(factors.tensors.empty() ? std::string(factors.shards.front().name)
                                            : factors.tensors.front().name);
    }
    if (ranks.size() > 1) {
        throw Error(ErrorCode::unsupported,
                    "the adapter's factors have ranks " + std::to_string(*ranks.begin()) + " to " +
                        std::to_string(*ranks.rbegin()),
                    kMergeThere);
    }
}

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

/// The recipe of the factors that are there. Error for those of what is no matrix of the family.
models::Recipe of_stored(const Catalogue& stored, const HeldModel& framework,
                         const models::LoraForm& form) {
    const models::Recipe& recipe = *framework.recipe;
    const plan::StoreMatcher matcher(form.dialect, recipe, *framework.symbols);
    const plan::StoreMatcher weights(*framework.dialect, recipe, *framework.symbols);
    const std::string mark = mark_of(*framework.dialect->lora);
    std::set<std::string> names;
    const auto check = [&](const auto& item) {
        const std::string& name = item.name;
        if (const auto match = matcher.find(name, item.shape.size())) {
            names.insert(match->line->name.text);
            return;
        }
        if (plan::passes_unlisted(recipe, plan::renamed(recipe, name))) {
            return;
        }
        const std::string stem = name.substr(0, name.find(mark));
        const bool is_weight = weights.switched_off(stem + ".weight") != nullptr;
        throw Error(
            is_weight ? ErrorCode::mismatch : ErrorCode::unsupported,
            printable(name) + " is a factor of " + printable(stem) +
                (is_weight ? ", which config.json describes a model without"
                           : ", of which shardweld knows no matrix in a " + recipe.name + " model"),
            is_weight ? plan::kConfigHint : kMergeThere);
    };
    catalogue::each_item(stored, check);
    models::Recipe of_those = form.recipe;
    std::erase_if(of_those.hub,
                  [&](const models::Line& line) { return !names.contains(line.name.text); });
    return of_those;
}

Bytes bytes_of(const plan::Targets& targets) {
    return add_up(targets, [](const plan::Target& target) {
        return plan::source_bytes(target) + plan::replica_bytes(target);
    });
}

/// Every factor is in a tensor of the model by now. What stands in several is counted so often, and
/// rows that the model has not, such as those that fill up a vocabulary, are padding.
void settle_account(plan::Binding& whole, const CutFactors& cut, Bytes& repeated) {
    const Bytes stored = bytes_of(whole.targets);
    const Bytes used = bytes_of(cut.targets);
    repeated = used > stored ? used - stored : 0;
    whole.ledger.padding += stored > used ? stored - used : 0;
}

/// A base that was given with --base has the names of a module tree: it is prepared as if it stood
/// alone. nullopt where there is none.
std::optional<HeldModel> prepare_base(const ModelFiles& files, const JobModel& choice,
                                      const models::LoraNames& names, Catalogue& catalogue) {
    Catalogue adapter = take_adapter(catalogue, names);
    std::optional<HeldModel> prepared;
    if (!is_empty(catalogue)) {
        const std::string dialect = std::exchange(catalogue.dialect, kModuleDialect);
        auto is_alone = catalogue.facts.extract(formats::kLoraOnly);
        prepared = prepare_model(files, choice, catalogue);
        catalogue.facts.insert(std::move(is_alone));
        catalogue.dialect = dialect;
    }
    append_all(catalogue.tensors, std::move(adapter.tensors));
    append_all(catalogue.shards, std::move(adapter.shards));
    return prepared;
}

}  // namespace

HeldModel prepare_with_adapter(const ModelFiles& files, const JobModel& choice,
                               Catalogue& catalogue) {
    HeldModel prepared = prepare_model(files, choice, catalogue);
    if (!holds_framework_adapter(catalogue)) {
        return prepared;
    }
    if (!prepared.dialect->lora) {
        throw Error(ErrorCode::unsupported,
                    "the dialect " + prepared.dialect->name + " does not say how adapters are kept",
                    "give one that has `lora` with --recipe");
    }
    const auto framework = std::make_shared<const HeldModel>(prepared);
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
    Catalogue factors = of_same_files(catalogue);
    factors.tensors = take_marked(catalogue.tensors, mark_of(names));
    factors.shards = take_marked(catalogue.shards, mark_of(names));
    return factors;
}

std::optional<HeldModel> module_tree_of(const HeldModel& framework, Catalogue factors) {
    if (known_type(framework.config).empty()) {
        return std::nullopt;
    }
    JobModel choice = framework.choice;
    choice.output.form = "dcp";
    choice.like = nullptr;
    choice.output.quantise.reset();
    return prepare_model(framework.files, choice, factors);
}

FrameworkAdapter bind_framework_adapter(Catalogue stored, const HeldModel& framework,
                                        const plan::BindOptions& factors,
                                        const plan::BindOptions& trained, bool is_beside,
                                        const HeldModel* tree) {
    const models::LoraNames& names = *framework.dialect->lora;
    const models::Symbols& symbols = *framework.symbols;
    const models::LoraForm form = models::lora_form(*framework.recipe, *framework.dialect);
    Catalogue whole = take_trained(stored);
    const Bytes copied = spread_shared(stored, names);
    const std::set<std::string> joined = join_segments(stored, framework);
    if (!is_empty(stored) || is_empty(whole)) {
        require_plain(stored, names);
    }
    plan::apply_aliases(stored, {framework.recipe.get(), &form.dialect, &symbols});
    rename_factors(stored, form, symbols);
    undo_rank_orders(form, names, symbols, stored);
    FrameworkAdapter adapter;
    if (!is_empty(stored)) {
        const models::Recipe recipe = of_stored(stored, framework, form);
        order_segments(stored, framework, joined);
        adapter.factors =
            plan::bind(std::move(stored), {&recipe, &form.dialect, &symbols}, factors);
        CutFactors cut = is_beside ? cut_for_modules(adapter.factors, framework, tree)
                                   : cut_factors(adapter.factors, framework);
        settle_account(adapter.factors, cut, adapter.repeated);
        adapter.repeated += copied;
        adapter.factors.targets = std::move(cut.targets);
        adapter.factors.same = std::move(cut.same);
        adapter.uses = std::move(cut.uses);
    }
    if (!is_empty(whole)) {
        const models::Recipe parts = of_parts(*framework.recipe, is_beside);
        plan::BindOptions options = trained;
        if (tree != nullptr) {
            options.spelled = tree->training->passing();
        }
        adapter.trained =
            plan::bind(std::move(whole), {&parts, framework.dialect.get(), &symbols}, options);
    }
    return adapter;
}

}  // namespace shardweld::app

#include "untied.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "adapters/peft_names.hpp"
#include "adapters/separate.hpp"
#include "adapters/token_rows.hpp"
#include "app/family/respelled.hpp"
#include "catalogue/catalogue.hpp"
#include "core/json.hpp"
#include "core/names/config_fields.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "framework_adapter.hpp"

namespace shardweld::app {

namespace {

using adapters::ChangedWeights;
using adapters::TensorRole;
using catalogue::Catalogue;
using models::SameRule;

constexpr const char* kTied = "tie_word_embeddings";
constexpr const char* kAtEnds = "embedding or head";
constexpr const char* kSplitInstead =
    "use --lora split, and load base and adapter with peft: it keeps them apart";

/// What the adapter's names say that it changes.
ChangedWeights changed_by_adapter(const HeldModel& prepared, const Catalogue& catalogue) {
    if (prepared.framework == nullptr) {
        return adapters::changed_weights(catalogue);
    }
    // Modules that a framework's adapter trains as a whole stay tied: its head asks the embedding
    // for the weight at each step.
    const models::LoraNames& names = *prepared.framework->dialect->lora;
    ChangedWeights changed;
    catalogue::each_name(catalogue, [&](const std::string& name) {
        for (const std::string* const end : {&names.down, &names.up}) {
            if (name.ends_with(*end)) {
                changed.by_factors.insert(name.substr(0, name.size() - end->size()) + ".weight");
            }
        }
    });
    return changed;
}

/// Whether a stored name is that of a logical tensor of which there is one.
bool is_called(const HeldModel& model, const std::string& logical, const std::string& name) {
    const std::string hub = plan::renamed(*model.recipe, name);
    return std::ranges::any_of(model.dialect->store, [&](const models::Line& line) {
        return line.logical == logical && (line.name.text == name || line.name.text == hub);
    });
}

/// How a pair of which one is stored for both is changed.
struct Change {
    std::string head;  ///< the changed weight's name, "" where it is not changed
    std::string embedding;
    bool is_by_factors = false;

    [[nodiscard]] bool unties() const { return is_by_factors || head.empty() != embedding.empty(); }
};

Change change_of(const SameRule& rule, const HeldModel& prepared, const ChangedWeights& changed) {
    const HeldModel& named = prepared.framework == nullptr ? prepared : *prepared.framework;
    Change change;
    for (const auto* const weights : {&changed.by_factors, &changed.as_whole}) {
        for (const std::string& name : *weights) {
            const bool is_head = is_called(named, rule.a, name);
            if (is_head || is_called(named, rule.b, name)) {
                (is_head ? change.head : change.embedding) = name;
                change.is_by_factors = change.is_by_factors || weights == &changed.by_factors;
            }
        }
    }
    return change;
}

/// Rows of single tokens are those of both, unless the head has tokens of its own.
void add_token_rows(const SameRule& rule, const HeldModel& prepared,
                    const std::set<std::string>& weights, Change& change) {
    const auto module_called = [&](const std::string& logical) {
        auto* const weight = find_where(
            weights, [&](const std::string& name) { return is_called(prepared, logical, name); });
        return weight == nullptr ? "" : weight->substr(0, weight->rfind('.'));
    };
    const std::string head = module_called(rule.a);
    const std::string embedding = module_called(rule.b);
    if (!head.empty() &&
        (embedding.empty() ||
         adapters::has_own_tokens(prepared.files.adapter_config, head, embedding))) {
        change.head = head + ".weight";
        change.embedding = embedding.empty() ? change.embedding : embedding + ".weight";
        change.is_by_factors = true;
    } else if ((prepared.choice.is_untied || change.unties()) && !(head + embedding).empty()) {
        throw Error(ErrorCode::unsupported,
                    "the adapter changes head or embedding, which the base has in one matrix, "
                    "and rows of " +
                        printable(embedding.empty() ? head : embedding) +
                        ", which are in both: what of it each of them has, only PEFT knows",
                    kSplitInstead);
    }
}

/// The name under which a logical tensor would be stored; "" where the model has none.
std::string stored_name(const HeldModel& prepared, const std::string& logical) {
    auto* const line = find_where(prepared.dialect->store, [&](const models::Line& one) {
        return one.logical == logical && one.name.captures.empty() &&
               prepared.symbols->holds(one.condition);
    });
    return line == nullptr ? "" : line->name.text;
}

/// What a stored tensor has of a pair: the base's matrix, as the base or as the wrapped module has
/// it, or a trained one.
enum class Holds { nothing, of_base, of_wrapped, trained };

Holds held(const std::string& name, const HeldModel& prepared, const std::string& logical) {
    const adapters::PeftName peft = adapters::read_name(name);
    if (peft.role == TensorRole::factor || !is_called(prepared, logical, peft.module_name)) {
        return Holds::nothing;
    }
    const bool is_before = peft.role == TensorRole::wrapped || peft.role == TensorRole::original;
    return is_before                             ? Holds::of_wrapped
           : peft.role == TensorRole::whole      ? Holds::trained
           : name.starts_with(adapters::kPrefix) ? Holds::trained
                                                 : Holds::of_base;
}

template <typename Item>
void add_copies(std::vector<Item>& items, const std::string& from, const std::string& to) {
    auto copies = collect_list<Item>(
        items, std::identity(), [&](const Item& item) { return std::string(item.name) == from; });
    for (Item& copy : copies) {
        copy.name = to;
        items.push_back(std::move(copy));
    }
}

const catalogue::Tensor* tensor_named(const Catalogue& catalogue, const std::string& name) {
    return find_item(catalogue.tensors, name, &catalogue::Tensor::name);
}

/// Leaves out a matrix of the base that lacks the rows which another one has.
bool is_outgrown(const std::string& held, const std::string& source, Catalogue& catalogue) {
    const catalogue::Tensor* const small = tensor_named(catalogue, held);
    const catalogue::Tensor* const large = tensor_named(catalogue, source);
    if (small == nullptr || large == nullptr || small->shape.size() != 2 ||
        large->shape.size() != 2 || small->shape[0] >= large->shape[0]) {
        return false;
    }
    catalogue.ignored.push_back(
        {held, "without the new rows that the adapter has", 1, catalogue::stored_bytes(*small)});
    std::erase_if(catalogue.tensors,
                  [&](const catalogue::Tensor& tensor) { return tensor.name == held; });
    return true;
}

/// Gives `logical` the matrix of `other` as it was before the training, where it has none. An
/// adapter for a grown vocabulary is saved with the base's matrix, which has the new rows.
void copy_missing(const HeldModel& prepared, const std::string& logical, const std::string& other,
                  Catalogue& catalogue) {
    std::string source;
    std::string stored;
    bool is_held = false;
    bool is_of_base = true;
    catalogue::each_name(catalogue, [&](const std::string& name) {
        const Holds own = held(name, prepared, logical);
        is_held = is_held || own != Holds::nothing;
        is_of_base = is_of_base && (own == Holds::nothing || own == Holds::of_base);
        stored = own == Holds::of_base ? name : stored;
        const Holds holds = held(name, prepared, other);
        if (holds == Holds::of_wrapped || (holds == Holds::of_base && source.empty())) {
            source = name;
        }
    });
    const bool is_missing =
        !is_held || (is_of_base && !source.empty() && is_outgrown(stored, source, catalogue));
    if (is_missing && !source.empty()) {
        const std::string name = stored_name(prepared, logical);
        add_copies(catalogue.tensors, source, name);
        add_copies(catalogue.shards, source, name);
    }
}

/// What is the pair's in a family that has a recipe.
std::vector<SameRule> pairs_of(const HeldModel& prepared) {
    return collect_list<SameRule>(
        prepared.recipe->same, std::identity(), [&](const SameRule& rule) {
            return prepared.choice.is_untied || prepared.symbols->holds(rule.condition);
        });
}

Warning warning_of(const Change& change, const HeldModel& prepared, const SameRule& rule) {
    const std::string head = stored_name(prepared, rule.a);
    const std::string embedding = stored_name(prepared, rule.b);
    const bool is_both = !change.head.empty() && !change.embedding.empty();
    const std::string text =
        is_both ? head + " and " + embedding + ", each on its own, which are one matrix in the base"
                : (change.head.empty() ? embedding : head) + " and not " +
                      (change.head.empty() ? head : embedding) +
                      ", which is the same matrix in the base";
    return {"adapter_unties", head,
            "the adapter changes " + text + " (" + kTied +
                "): both are written, and config.json's " + kTied + " is set to false"};
}

/// The class has a language model's head.
bool is_language_class(const HeldModel& prepared) {
    const std::vector<std::string> names = prepared.config.architectures();
    return !names.empty() && is_known_as(names.front(), "class with a language model's head");
}

/// The last part of the name of the module that has a weight.
std::string last_module(const std::string& weight) {
    const std::string module = weight.substr(0, weight.rfind('.'));
    return module.substr(module.rfind('.') + 1);
}

/// Recipes know what stands for both; where they have no head names and config.json alone tell.
void require_apart_without_recipe(const HeldModel& prepared, const Catalogue& catalogue) {
    const ChangedWeights changed = changed_by_adapter(prepared, catalogue);
    std::set<std::string> stored;
    std::set<std::string> ends;
    catalogue::each_name(catalogue, [&](const std::string& name) {
        const adapters::PeftName peft = adapters::read_name(name);
        const std::string last = last_module(peft.module_name);
        if (peft.module_name.ends_with(".weight") && is_known_as(last, kAtEnds)) {
            stored.insert(peft.module_name);
            ends.insert(last);
        }
    });
    std::string found;
    for (const auto* const weights : {&changed.by_factors, &changed.as_whole, &changed.by_rows}) {
        for (const std::string& weight : *weights) {
            const bool is_found = is_known_as(last_module(weight), kAtEnds) &&
                                  !(weights == &changed.by_rows && stored.contains(weight));
            found = is_found ? weight : found;
        }
    }
    const bool has_head = ends.size() > 1;
    const auto stated = prepared.config.integer(kTied);
    if (!found.empty() && is_language_class(prepared) && (stated ? *stated != 0 : !has_head)) {
        throw Error(ErrorCode::unsupported,
                    "the adapter changes " + printable(found) +
                        ", which by config.json the model uses as head and embedding in one (" +
                        kTied +
                        "), and no recipe tells what the other is called: folded, it would "
                        "change both",
                    kSplitInstead);
    }
}

void note_spelling(HeldModel& prepared) {
    for (const Respelling& way : prepared.choice.respelled) {
        prepared.notes.push_back("names that begin with " + printable(way.from) +
                                 " in the adapter are taken for the base's, which begin with " +
                                 printable(way.to));
    }
}

}  // namespace

void untie(models::Config& config, const HeldModel& tied) {
    auto all = parse_known_json<nlohmann::ordered_json>(without_nonfinite(config.text_to_write()));
    all[kTied] = false;
    for (const std::string_view inner : kInnerConfigs) {
        const nlohmann::ordered_json::json_pointer place("/" +
                                                         replaced(std::string(inner), ".", "/"));
        if (all.contains(place) && all[place].is_object()) {
            all[place][kTied] = false;
        }
    }
    config = models::Config::parse(with_nonfinite(all.dump(2)) + "\n", config.origin());
    for (const SameRule& rule : tied.recipe->same) {
        for (const std::string& field : tied.symbols->deciding_fields(rule.condition)) {
            if (has_part(field, "tie") || has_part(field, "tying")) {
                config.set(field, "false");
            }
        }
    }
}

HeldModel prepare_for_fold(ModelFiles files, JobModel choice, Catalogue& catalogue) {
    HeldModel tied = prepare_with_adapter(files, choice, catalogue);
    if (choice.lora != Lora::fold) {
        return tied;
    }
    if (auto ways = take_base_names(tied, catalogue); !ways.empty()) {
        choice.respelled = std::move(ways);
        tied.choice.respelled = choice.respelled;
    }
    note_spelling(tied);
    if (!contains(tied.recipe->hub, "head", &models::Line::logical)) {
        require_apart_without_recipe(tied, catalogue);
        return tied;
    }
    const ChangedWeights changed = changed_by_adapter(tied, catalogue);
    const std::vector<SameRule> pairs = pairs_of(tied);
    auto changes = collect_list<Change>(pairs, [&](const SameRule& rule) {
        Change change = change_of(rule, tied, changed);
        add_token_rows(rule, tied, changed.by_rows, change);
        return change;
    });
    if (!choice.is_untied && std::ranges::none_of(changes, &Change::unties)) {
        return tied;
    }
    models::Config config = models::Config::parse(files.config_text, files.config_path);
    untie(config, tied);
    files.config_text = config.text_to_write();
    choice.is_tied = false;
    choice.is_untied = true;
    HeldModel prepared = prepare_with_adapter(files, choice, catalogue);
    note_spelling(prepared);
    for (const std::size_t i : indices(pairs)) {
        const SameRule& rule = pairs[i];
        if (prepared.symbols->holds(rule.condition)) {
            throw Error(
                ErrorCode::unsupported,
                "the adapter changes " +
                    printable(changes[i].head.empty() ? changes[i].embedding : changes[i].head) +
                    ", and a " + prepared.recipe->name +
                    " model always has one matrix for head and embedding: folded, it "
                    "would change both",
                kSplitInstead)
                .set_detail(rule.origin);
        }
        if (stored_name(prepared, rule.a).empty()) {  // a model without a language model's head
            return tied;
        }
        copy_missing(prepared, rule.a, rule.b, catalogue);
        copy_missing(prepared, rule.b, rule.a, catalogue);
        if (changes[i].unties()) {
            prepared.warnings.push_back(warning_of(changes[i], prepared, rule));
        }
    }
    // The copies are of one storage, which is no sign of a tie here.
    models::Recipe recipe = *prepared.recipe;
    recipe.same.clear();
    prepared.recipe = std::make_shared<const models::Recipe>(std::move(recipe));
    return prepared;
}

}  // namespace shardweld::app
